//! Lists of uses that have parts of their own: how they are walked, cut and filled.
//!
//! A write cuts what it overlaps out of the uses before it, so that every use is kept only as far as no later write covers
//! it. What is left of a box is boxes again. A list in which more than a few uses are held by open scopes is not cut into
//! more pieces: the next write that would be kept in it meets all of them and stands for them from then on. A span covers
//! nothing, so that the uses before it would stay until they come back: after more than a few spans, whether or not they have
//! come back, the next span that is written stands for all before it, too. The home of a buffer with cells has many wide boxes
//! before one stands for them.

use super::grid::{FEW, MANY_WIDE};
use super::home::{Home, HomeContent, ListedUse, Lists, RingUses, UsedPart};
use super::search::Search;
use super::user::User;
use super::{BufferRef, Edges, NONE, RINGS, Tensormap};
use crate::{BufferShape, Footprint};
use plimsoll_abi::MAX_DIMS;

/// Where a home is.
#[derive(Clone, Copy)]
pub(super) enum HomePlace {
    /// The home of a buffer.
    Buffer(BufferRef),
    /// The home of a cell.
    Cell(u32),
}

/// What a walk along a list compares with.
#[derive(Clone, Copy)]
pub(super) struct Walk {
    /// The part that the home is of: that of uses without a part.
    pub(super) footprint: Footprint,
    /// The part of the home that the access touches.
    pub(super) clip: Footprint,
    /// Whether it is cut out of the uses.
    pub(super) cut: bool,
    /// Whether it stands for all uses from now on: then all are met, and dropped.
    pub(super) all: bool,
    /// Whether the uses were met before.
    pub(super) met: bool,
    /// Uses before this place in the order are superseded.
    pub(super) from: u64,
    /// The place in the order of uses without a part.
    pub(super) since: u64,
    /// How many uses that open scopes hold a list may have and still be cut into more pieces.
    pub(super) most: usize,
}

impl Home {
    /// Enters a read, of a part if there is one.
    #[inline]
    pub(super) fn push_read(&mut self, ring: usize, rings: &mut [RingUses; RINGS], user: User, part: u32) {
        let newest = self.reads[ring];
        self.reads[ring] = rings[ring].uses.push(|| ListedUse::of_part(user, newest, part));
    }
}

impl Search<'_> {
    /// Meets the uses of lists that overlap the access, newest first, and cuts it out of them. Whether an open scope holds
    /// one of those that were met.
    pub(super) fn walk(
        &mut self,
        rings: &mut [RingUses; RINGS],
        heads: &mut [u32; RINGS],
        walk: &Walk,
        edges: &mut impl Edges,
    ) -> bool {
        let mut held = false;
        for (newest, ring) in heads.iter_mut().zip(rings) {
            let (mut before, mut at) = (NONE, *newest);
            while ring.uses.holds(at) {
                let entry = *ring.uses.at(at);
                let part = ring.part_of(&entry, walk);
                if part.order < walk.from {
                    break;
                }
                let other = !entry.user.is_task_of(self.access.user);
                let (is_guess, drops) = (other && (part.stretched || walk.all), other && walk.all);
                let mut kept = true;
                if is_guess || self.touches(&part.footprint, walk) {
                    if !walk.met {
                        let covered = !is_guess && part.footprint.covers(self.access.footprint);
                        held |= self.meet(entry.user, covered, is_guess || part.footprint.is_span(), edges);
                    }
                    kept = !drops && (!walk.cut || self.cut(ring, at, &part, walk, edges));
                }
                match (kept, before) {
                    (true, _) => before = ring.last_before(at, entry.older()),
                    (false, NONE) => *newest = entry.older(),
                    (false, before) => ring.uses.at_mut(before).set_older(entry.older()),
                }
                at = entry.older();
            }
        }
        held
    }

    /// Whether a part that is kept overlaps the access.
    fn touches(&self, part: &Footprint, walk: &Walk) -> bool {
        part.overlaps(&walk.clip, &self.buffer_shape)
            && (!self.is_span() || part.overlaps(self.access.footprint, &self.buffer_shape))
    }

    /// Cuts the access out of a use that it overlaps. Whether something is left of the use.
    fn cut(&self, ring: &mut RingUses, at: u32, part: &UsedPart, walk: &Walk, edges: &impl Edges) -> bool {
        if self.is_span() {
            // Whatever overlaps the use overlaps the span, by which everything is compared from now on.
            let (a, b) = (self.access.footprint.span(&self.buffer_shape), part.footprint.span(&self.buffer_shape));
            return part.stretched || b.0 < a.0 || a.1 < b.1;
        }
        ring.cut(at, part, &self.buffer_shape, walk, edges)
    }

    /// Meets what a mixed home keeps, reads only if the access writes. Whether a write is to stand for all of it.
    pub(super) fn look_at_mixed(
        &mut self,
        map: &mut Tensormap,
        reads: &mut [u32; RINGS],
        lists: u32,
        mut walk: Walk,
        edges: &mut impl Edges,
    ) -> bool {
        let mut writes = map.lists[lists as usize].writes;
        // Where a span is not cut out, it may stand for the rest all the same.
        let is_part = self.is_span() || walk.clip != walk.footprint;
        walk.all = self.after_many
            || self.access.user.writes() && is_part && (map.holds_many(&writes, edges) || map.holds_many(reads, edges));
        if self.access.user.writes() {
            self.walk(&mut map.rings, reads, &walk, edges);
        }
        self.walk(&mut map.rings, &mut writes, &walk, edges);
        map.lists[lists as usize].writes = writes;
        walk.all
    }
}

impl Tensormap {
    /// Whether open scopes hold more than a few of the uses in lists.
    pub(super) fn holds_many(&self, heads: &[u32; RINGS], edges: &impl Edges) -> bool {
        self.holds_more(FEW as usize, heads, edges)
    }

    /// Whether open scopes hold more than `most` of them.
    fn holds_more(&self, most: usize, heads: &[u32; RINGS], edges: &impl Edges) -> bool {
        let held = heads.iter().zip(&self.rings).flat_map(|(&newest, ring)| ring.held(newest, edges));
        is_more(most, held)
    }

    pub(super) fn home(&mut self, place: HomePlace) -> &mut Home {
        match place {
            HomePlace::Buffer(buffer) => &mut self.anchors.at_mut(buffer).home,
            HomePlace::Cell(at) => &mut self.cells.homes[at as usize],
        }
    }

    /// Makes a home one of mixed parts, if it is not: whoever wrote all of its part is in its lists from then on, so that later
    /// writes are cut out of it, and what they superseded stays so when they come back. Returns the lists.
    pub(super) fn mix(&mut self, place: HomePlace, footprint: Footprint) -> u32 {
        let home = *self.home(place);
        if let Some(lists) = home.kept.lists() {
            return lists;
        }
        let lists = self.free_lists.pop().unwrap_or_else(|| {
            self.lists.push(Lists::EMPTY);
            self.lists.len() as u32 - 1
        });
        self.lists[lists as usize] = Lists { key: home.kept, since: self.clock, ..Lists::EMPTY };
        self.home(place).kept = HomeContent::mixed(lists);
        let writer = match place {
            HomePlace::Cell(at) => {
                let maker = home.kept.as_cell().and_then(|(buffer, _)| self.maker_of(buffer, &footprint));
                let writer = Some(home.writer).filter(|writer| writer.is_somebody());
                writer.or(maker).map(|writer| (writer, self.cells.wrote(at), footprint))
            }
            HomePlace::Buffer(buffer) => {
                self.anchors.note_grid_or_lists(buffer);
                let anchor = self.anchors.at(buffer);
                let everything = Footprint::WHOLE.as_box(&anchor.buffer_shape());
                // Older than all others, so it is the last of its list.
                match home.writer.is_somebody() {
                    true => Some((home.writer, self.clock, everything)),
                    false => anchor.creator.user().map(|maker| (maker, 0, everything)),
                }
            }
        };
        if let Some((writer, order, footprint)) = writer {
            // It comes back with whatever its ring enters next: later than its task, and nobody minds.
            let ring = writer.task().ring() as usize % RINGS;
            let part = UsedPart { footprint, order, stretched: false, of_all: true, moved: false };
            self.lists[lists as usize].writes[ring] = self.rings[ring].push(writer, NONE, part);
        }
        lists
    }

    /// The task that made the buffer; `None` if later writes that the buffer's home keeps, or has kept, cover all of `part`. Writes
    /// kept in cells must be checked before.
    pub(super) fn maker_of(&self, buffer: BufferRef, part: &Footprint) -> Option<User> {
        let anchor = self.anchors.at(buffer);
        let maker = anchor.creator.user().filter(|_| !anchor.home.writer.is_somebody())?;
        let Some(lists) = anchor.home.kept.lists() else { return Some(maker) };
        let ring = maker.task().ring() as usize % RINGS;
        let (RingUses { uses, parts }, buffer_shape) = (&self.rings[ring], anchor.buffer_shape());
        let mut at = self.lists[lists as usize].writes[ring];
        while uses.holds(at) {
            let left = parts.at(uses.at(at).part());
            if left.of_all && left.footprint.overlaps(part, &buffer_shape) {
                return Some(maker);
            }
            at = uses.at(at).older();
        }
        None
    }

    /// Enters a write in the home of a cell: of all of the cell, or of `clip` in it.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn enter_write(
        &mut self,
        at: u32,
        user: User,
        order: u64,
        all: bool,
        footprint: Footprint,
        clip: Footprint,
        stretched: bool,
    ) {
        if all {
            let kept = self.cells.homes[at as usize].kept;
            let key = kept.lists().map_or(kept, |lists| self.lists[lists as usize].key);
            self.free_lists_of(kept);
            self.cells.homes[at as usize] = Home { kept: key, writer: user, reads: [NONE; RINGS] };
            self.cells.set_wrote(at, order);
            return;
        }
        let is_new = self.cells.homes[at as usize].kept.lists().is_none();
        let lists = self.mix(HomePlace::Cell(at), footprint);
        if is_new {
            self.cut_writer(lists, footprint, clip);
        }
        self.push_write(lists, user, UsedPart { footprint: clip, order, stretched, of_all: false, moved: false });
    }

    pub(super) fn push_write(&mut self, lists: u32, user: User, part: UsedPart) {
        let ring = user.task().ring() as usize % RINGS;
        let newest = &mut self.lists[lists as usize].writes[ring];
        *newest = self.rings[ring].push(user, *newest, part);
    }

    /// Enters a write in lists in which all are newer.
    pub(super) fn push_oldest(&mut self, lists: u32, user: User, part: UsedPart) {
        let ring = user.task().ring() as usize % RINGS;
        let newest = self.lists[lists as usize].writes[ring];
        let number = self.rings[ring].push(user, NONE, part);
        let RingUses { uses, .. } = &mut self.rings[ring];
        let mut last = newest;
        while uses.holds(last) && uses.holds(uses.at(last).older()) {
            last = uses.at(last).older();
        }
        match uses.holds(last) {
            true => uses.at_mut(last).set_older(number),
            false => self.lists[lists as usize].writes[ring] = number,
        }
    }

    /// Cuts a part out of what is left of the write of all of a cell, which was met before.
    pub(super) fn cut_writer(&mut self, lists: u32, footprint: Footprint, clip: Footprint) {
        let Some((buffer, _)) = self.lists[lists as usize].key.as_cell() else { return };
        let buffer_shape = self.anchors.at(buffer).buffer_shape();
        let walk = Walk { footprint, clip, cut: true, all: false, met: true, from: 0, since: 0, most: FEW as usize };
        let mut writes = self.lists[lists as usize].writes;
        // Few are left of it, each cut off by a write that is there besides.
        self.cut_out(&mut writes, &buffer_shape, &walk, |part| part.of_all);
        self.lists[lists as usize].writes = writes;
    }

    /// Cuts a part out of all that the buffer's home keeps up to a place in the order.
    pub(super) fn cut_older(&mut self, buffer: BufferRef, lists: u32, order: u64, clip: &Footprint) {
        let anchor = self.anchors.at(buffer);
        let (mut reads, buffer_shape) = (anchor.home.reads, anchor.buffer_shape());
        let Lists { mut writes, since, .. } = self.lists[lists as usize];
        let footprint = Footprint::WHOLE.as_box(&buffer_shape);
        let walk = Walk { footprint, clip: *clip, cut: true, all: false, met: true, from: 0, since, most: MANY_WIDE };
        for heads in [&mut reads, &mut writes] {
            self.cut_out(heads, &buffer_shape, &walk, |part| part.order <= order);
        }
        self.anchors.at_mut(buffer).home.reads = reads;
        self.lists[lists as usize].writes = writes;
    }

    /// Cuts a part out of those uses of lists for which `cuts` says so and that it overlaps, in however many pieces that is.
    fn cut_out(
        &mut self,
        heads: &mut [u32; RINGS],
        buffer_shape: &BufferShape,
        walk: &Walk,
        cuts: impl Fn(&UsedPart) -> bool,
    ) {
        for (newest, ring_uses) in heads.iter_mut().zip(&mut self.rings) {
            let (mut before, mut at) = (NONE, *newest);
            while ring_uses.uses.holds(at) {
                let entry = *ring_uses.uses.at(at);
                let part = ring_uses.part_of(&entry, walk);
                let cuts = cuts(&part) && part.footprint.overlaps(&walk.clip, buffer_shape);
                match (!cuts || ring_uses.cut(at, &part, buffer_shape, walk, &Unheld), before) {
                    (true, _) => before = ring_uses.last_before(at, entry.older()),
                    (false, NONE) => *newest = entry.older(),
                    (false, before) => ring_uses.uses.at_mut(before).set_older(entry.older()),
                }
                at = entry.older();
            }
        }
    }

    /// Enters an access in the home of a buffer with a grid, which was met in the cells. Whether it `stands` for all that a cell
    /// kept.
    pub(super) fn enter_in_buffer(&mut self, search: &mut Search<'_>, stands: bool, edges: &mut impl Edges) {
        let (buffer, user) = (search.access.buffer, search.access.user);
        let lists = self.mix(HomePlace::Buffer(buffer), Footprint::WHOLE);
        let mut all = false;
        if user.writes() {
            let whole = Footprint::WHOLE.as_box(&search.buffer_shape);
            let clip = search.access.footprint.as_box(&search.buffer_shape);
            let (mut reads, mut writes) =
                (self.home(HomePlace::Buffer(buffer)).reads, self.lists[lists as usize].writes);
            let most = if search.is_span() { FEW as usize } else { MANY_WIDE };
            all = search.after_many || self.holds_more(most, &writes, edges) || self.holds_more(most, &reads, edges);
            let since = self.lists[lists as usize].since;
            let walk = Walk { footprint: whole, clip, cut: true, all, met: !all, from: 0, since, most };
            search.walk(&mut self.rings, &mut reads, &walk, edges);
            search.walk(&mut self.rings, &mut writes, &walk, edges);
            self.home(HomePlace::Buffer(buffer)).reads = reads;
            self.lists[lists as usize].writes = writes;
        }
        if all {
            self.anchors.at_mut(buffer).forget_spans();
        }
        self.push_in_buffer(search, all || stands);
    }

    /// Enters an access in the lists of a buffer.
    pub(super) fn push_in_buffer(&mut self, search: &Search<'_>, stretched: bool) {
        let (buffer, user) = (search.access.buffer, search.access.user);
        let lists = self.mix(HomePlace::Buffer(buffer), Footprint::WHOLE);
        let part = UsedPart {
            footprint: search.access.footprint.as_box(&search.buffer_shape),
            order: search.order,
            stretched,
            of_all: false,
            moved: false,
        };
        if part.footprint.is_span() {
            self.anchors.at_mut(buffer).count_span();
        }
        if user.writes() {
            return self.push_write(lists, user, part);
        }
        let ring = user.task().ring() as usize % RINGS;
        let home = &mut self.anchors.at_mut(buffer).home;
        home.reads[ring] = self.rings[ring].push(user, home.reads[ring], part);
    }
}

/// Nobody holds anything.
struct Unheld;

impl Edges for Unheld {
    fn meet(&mut self, _: super::Dependency) -> bool {
        false
    }

    fn is_held(&self, _: plimsoll_abi::TaskId) -> bool {
        false
    }
}

impl RingUses {
    /// The part that a use in a list is of.
    #[inline]
    fn part_of(&self, entry: &ListedUse, walk: &Walk) -> UsedPart {
        let whole = UsedPart::of_read(walk.footprint, walk.since);
        if entry.part() == NONE { whole } else { *self.parts.at(entry.part()) }
    }

    /// Cuts a box out of a use that it overlaps. Whether something is left of the use.
    fn cut(&mut self, at: u32, part: &UsedPart, buffer_shape: &BufferShape, walk: &Walk, edges: &impl Edges) -> bool {
        if walk.clip == walk.footprint {
            return false;
        }
        if part.stretched {
            return true;
        }
        if walk.clip.covers(&part.footprint) {
            return false;
        }
        if part.footprint.is_span() {
            return true;
        }
        let mine = part.footprint.as_box(buffer_shape).intersection(&walk.footprint);
        let mut pieces = [Footprint::WHOLE; 2 * MAX_DIMS];
        let mut count = 0;
        mine.minus(&walk.clip, |piece| {
            pieces[count] = piece;
            count += 1;
        });
        if count > 1 && is_more(walk.most, self.held(at, edges)) {
            return true;
        }
        let user = self.uses.at(at).user;
        for (k, &footprint) in pieces[..count].iter().enumerate() {
            let piece = UsedPart { footprint, ..*part };
            if k == 0 {
                let number = self.parts.push(|| piece);
                self.uses.at_mut(at).set_part(number);
            } else {
                let next = self.uses.at(at).older();
                let number = self.push(user, next, piece);
                self.uses.at_mut(at).set_older(number);
            }
        }
        count > 0
    }

    /// The last use in a list from one on before `next`: the use itself, or the last of the pieces that were cut off it, which lie
    /// behind it.
    fn last_before(&self, mut at: u32, next: u32) -> u32 {
        while self.uses.at(at).older() != next {
            at = self.uses.at(at).older();
        }
        at
    }

    /// Uses in a list from one on that open scopes hold.
    fn held(&self, at: u32, edges: &impl Edges) -> impl Iterator<Item = &ListedUse> {
        let behind = |at: u32| Some(at).filter(|&at| self.uses.holds(at));
        std::iter::successors(behind(at), move |&at| behind(self.uses.at(at).older()))
            .map(|at| self.uses.at(at))
            .filter(|entry| edges.is_held(entry.user.task()))
    }
}

/// Whether there are more than `most` of these. It takes no more of them than that takes.
fn is_more<'u>(most: usize, mut uses: impl Iterator<Item = &'u ListedUse>) -> bool {
    uses.nth(most).is_some()
}
