//! Whether two strided views of one buffer share an element, at any size.
//!
//! A view is the offsets `o + Σ i·s` with every index `i` from 0 to its extent. Two views share an element if `Σ x·c = d` has a
//! solution, where `d` is how far apart they begin, `c` are the strides of both, and every `x` lies between bounds. Terms of the
//! same stride are one term. The largest stride is tried first: what the smaller ones can still reach leaves few values for it, mostly
//! one, because strides of tensors nest. Strides that do not nest may need a search, which ends at a bound without an answer.

use plimsoll_trace::deps::RecordedView;

/// What is known of two views.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sharing {
    /// They share no element.
    Apart,
    /// They share one.
    Shared,
    /// The search was given up.
    Unknown,
}

/// Values tried for one pair of views before it is given up.
const MOST_STEPS: u32 = 1 << 14;

/// A stride and the bounds of what it is multiplied by.
#[derive(Clone, Copy, Debug)]
struct Term {
    stride: i128,
    least: i128,
    most: i128,
}

/// What the terms from one on can reach: multiples of `gcd` from `least` to `most`, and all of them if `dense`.
#[derive(Clone, Copy, Debug)]
struct Reach {
    least: i128,
    most: i128,
    gcd: i128,
    dense: bool,
}

/// Whether two views of one buffer share an element.
pub(super) fn sharing(a: &RecordedView, b: &RecordedView) -> Sharing {
    if is_empty(a) || is_empty(b) {
        return Sharing::Apart;
    }
    let mut terms = Vec::new();
    add_terms(a, 1, &mut terms);
    add_terms(b, -1, &mut terms);
    terms.sort_by_key(|term| std::cmp::Reverse(term.stride));
    let reaches = reaches(&terms);
    let distance = i128::from(b.offset) - i128::from(a.offset);
    let mut steps = MOST_STEPS;
    match search(&terms, &reaches, distance, &mut steps) {
        Some(true) => Sharing::Shared,
        Some(false) => Sharing::Apart,
        None => Sharing::Unknown,
    }
}

fn is_empty(view: &RecordedView) -> bool {
    view.shape[..view.ndim as usize].contains(&0)
}

/// Adds a view's dimensions, on the side of the equation that `sign` says.
fn add_terms(view: &RecordedView, sign: i128, terms: &mut Vec<Term>) {
    let dims = view.ndim as usize;
    for (extent, stride) in view.shape[..dims].iter().zip(&view.strides[..dims]) {
        if *extent == 1 || *stride == 0 {
            continue;
        }
        let (stride, reach) = (i128::from(*stride) * sign, i128::from(*extent) - 1);
        let (least, most) = if stride > 0 { (0, reach) } else { (-reach, 0) };
        match terms.iter_mut().find(|term| term.stride == stride.abs()) {
            Some(term) => (term.least, term.most) = (term.least + least, term.most + most),
            None => terms.push(Term { stride: stride.abs(), least, most }),
        }
    }
}

/// For each index, the range of sums that the terms from there to the end can form; the last entry is the empty sum, 0.
fn reaches(terms: &[Term]) -> Vec<Reach> {
    let mut reach = Reach { least: 0, most: 0, gcd: 0, dense: true };
    let mut all = vec![reach];
    for term in terms.iter().rev() {
        let gcd = gcd(term.stride, reach.gcd);
        // The next multiple of this stride must begin where the smaller ones still reach.
        let follows = term.stride <= reach.most - reach.least + gcd || reach.gcd == 0;
        reach = Reach {
            least: reach.least + term.stride * term.least,
            most: reach.most + term.stride * term.most,
            dense: reach.dense && follows && (reach.gcd == 0 || gcd == reach.gcd),
            gcd,
        };
        all.push(reach);
    }
    all.reverse();
    all
}

/// Whether the terms can add up to `distance`; nothing if the search was given up.
fn search(terms: &[Term], reaches: &[Reach], distance: i128, steps: &mut u32) -> Option<bool> {
    let reach = reaches[0];
    if distance < reach.least || distance > reach.most || reach.gcd == 0 && distance != 0 {
        return Some(false);
    }
    if reach.gcd != 0 && distance % reach.gcd != 0 {
        return Some(false);
    }
    if reach.dense {
        return Some(true);
    }
    let (term, rest) = (terms[0], reaches[1]);
    // What is left for the others lies within their reach.
    let from = div_ceil(distance - rest.most, term.stride).max(term.least);
    let until = (distance - rest.least).div_euclid(term.stride).min(term.most);
    let mut at = from;
    while at <= until {
        *steps = steps.checked_sub(1)?;
        if search(&terms[1..], &reaches[1..], distance - at * term.stride, steps)? {
            return Some(true);
        }
        at += 1;
    }
    Some(false)
}

/// The least whole number that is `a / b` or more, for a positive `b`.
fn div_ceil(a: i128, b: i128) -> i128 {
    -(-a).div_euclid(b)
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn view(offset: u64, shape: &[u32], strides: &[i32]) -> RecordedView {
        let (mut wide, mut apart) = ([0; plimsoll_abi::MAX_DIMS], [0; plimsoll_abi::MAX_DIMS]);
        wide[..shape.len()].copy_from_slice(shape);
        apart[..strides.len()].copy_from_slice(strides);
        RecordedView::new(shape.len() as u8, wide, apart, offset)
    }

    fn elements(view: &RecordedView) -> BTreeSet<i64> {
        let mut all = BTreeSet::from([view.offset as i64]);
        for (extent, stride) in view.shape.iter().zip(&view.strides).take(view.ndim as usize) {
            let steps = 0..i64::from(*extent);
            all = all.iter().flat_map(|at| steps.clone().map(move |step| at + step * i64::from(*stride))).collect();
        }
        all
    }

    #[test]
    fn tiles_of_any_size_are_told_apart() {
        let tile = |row: u64, column: u64| view(row * 256 * 4096 + column * 128, &[256, 128], &[4096, 1]);
        assert_eq!(sharing(&tile(0, 0), &tile(0, 1)), Sharing::Apart);
        assert_eq!(sharing(&tile(3, 2), &tile(2, 2)), Sharing::Apart);
        assert_eq!(sharing(&tile(3, 2), &tile(3, 2)), Sharing::Shared);
        let halo = view(255 * 4096 + 127, &[2, 2], &[4096, 1]);
        assert_eq!(
            [tile(0, 0), tile(1, 1), tile(2, 2)].map(|tile| sharing(&tile, &halo)),
            [Sharing::Shared, Sharing::Shared, Sharing::Apart]
        );
        let (even, odd) = (view(0, &[1 << 20, 1 << 10], &[2048, 2]), view(1, &[1 << 20, 1 << 10], &[2048, 2]));
        assert_eq!(sharing(&even, &odd), Sharing::Apart);
        let all = view(0, &[u32::MAX, u32::MAX], &[i32::MAX, 1]);
        assert_eq!(sharing(&all, &odd), Sharing::Shared);
        assert_eq!(sharing(&view(7, &[0], &[1]), &all), Sharing::Apart, "a view of nothing");
        assert_eq!(sharing(&view(7, &[], &[]), &view(7, &[], &[])), Sharing::Shared, "one element");
    }

    /// Against listing all elements.
    #[test]
    fn small_views_are_compared_as_if_they_were_listed() {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut next = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % most
        };
        let mut seen = [0; 2];
        for _ in 0..20_000 {
            let [a, b] = [(); 2].map(|()| {
                let dims = next(4) as usize;
                let shape: Vec<u32> = (0..dims).map(|_| 1 + next(5) as u32).collect();
                let strides: Vec<i32> = (0..dims).map(|_| next(25) as i32 - 6).collect();
                view(200 + next(40), &shape, &strides)
            });
            let shares = elements(&a).intersection(&elements(&b)).next().is_some();
            let expected = if shares { Sharing::Shared } else { Sharing::Apart };
            assert_eq!(sharing(&a, &b), expected, "{a:?} {b:?}");
            seen[usize::from(shares)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 1000), "{seen:?}");
    }

    #[test]
    fn a_search_without_end_is_given_up() {
        let strides = [999_983, 999_979, 999_961, 999_959, 999_953];
        let (wide, other) = (view(0, &[60_000; 5], &strides), view(1, &[60_000; 5], &strides.map(|s| s * 2 + 1)));
        assert_ne!(sharing(&wide, &other), Sharing::Apart, "certainly not known to be apart");
    }
}
