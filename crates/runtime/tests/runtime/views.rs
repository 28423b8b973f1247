//! What kernels can do with a view, on every kind of view.
#![allow(clippy::unwrap_used)]

use plimsoll_runtime::*;

type Made<'s> = Result<Tensor<'s, i32>>;

/// Every element of the view becomes 1 and every other stays, whether its rows are contiguous or not.
#[test]
fn fill_sets_every_element_of_any_view() {
    let views: [(&str, fn(&Tensor<'_, i32>) -> usize, for<'s> fn(Tensor<'s, i32>) -> Made<'s>); 6] = [
        ("all", |_| 24, |t| Ok(t)),
        ("transposed", |_| 24, |t| Ok(t.transpose())),
        ("permuted", |_| 24, |t| t.permute([1, 2, 0])),
        ("a slice of the transposed", |t| t.len(), |t| t.transpose().slice(0, 1..3)),
        ("a tile", |t| t.len(), |t| t.tile([1, 0, 1], [1, 3, 2])),
        ("a tile of the permuted", |t| t.len(), |t| t.permute([2, 0, 1])?.tile([0, 0, 1], [2, 2, 1])),
    ];
    let mut device = Device::builder().workers(1).open().unwrap();
    let fill = device.kernel("fill", |mut x: Out<i32>| x.fill(1));
    let fill_again = device.kernel("fill_again", |mut x: InOut<i32>| x.fill(1));
    for (name, len, view) in views {
        let (part, all, expected) = device
            .run(|o| {
                let t = o.own(vec![0; 24], [2, 3, 4])?;
                let view = view(t)?;
                o.submit(&fill, (output_existing(&view),))?;
                o.submit(&fill_again, (inout(&view),))?;
                Ok((o.read(&view)?, o.read(&t)?, len(&view)))
            })
            .unwrap();
        assert_eq!(part, vec![1; expected], "{name}");
        assert_eq!(all.iter().sum::<i32>(), expected as i32, "{name}: nothing outside");
    }
}
