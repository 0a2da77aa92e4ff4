//! The walk along a view: which reader views fit what the client holds. Reads the index only; a step costs the same in every tree.

use std::collections::HashSet;

use foldhash::fast::RandomState;

use super::meaning::{Meaning, meaning};
use super::news::Met;
use super::reading::{EMPTY, Ix, Name, Vertex};
use super::tree::Tree;
use super::view::Key;
use crate::ids::NodeId;
use crate::protocol::{Digest, Ignored, Message, Role, SameIdEdit};

/// The most reader views that a walk keeps.
const CANDIDATES_MAX: usize = 16;
/// Up to so many copies of a message are all tried.
const COPIES_FEW: u32 = 16;
/// Of more, so many, the newest, are tried at a gap.
const COPIES_MAX: usize = 256;
/// The most ids of implied messages that are reported.
const IMPLIED_MAX: usize = 100;

/// What one message did to the walk.
pub(super) enum Step {
    /// It is the next one, by its own id.
    On,
    /// It was passed over, or found by something else than its id.
    Over,
    /// The news begins with it.
    News,
}

/// What a name did to the walk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    Onward,
    Over,
    Nowhere,
}

/// A step over messages that the view doesn't name, or one with several that fit.
struct Gap {
    before: Vec<Vertex>,
    after: Vec<Vertex>,
}

/// The reader views that fit so far, best first.
pub(super) struct Walk<'a> {
    tree: &'a Tree,
    head: Vertex,
    same_id_edit: SameIdEdit,
    fits: Vec<Vertex>,
    gaps: Vec<Gap>,
    /// Names that came later than their place.
    late: Vec<Name>,
    /// Whether any message had a place.
    pub(super) matched: bool,
    pub(super) met: Met,
}

impl<'a> Walk<'a> {
    pub(super) fn new(tree: &'a Tree, head: Option<Ix>, same_id_edit: SameIdEdit) -> Self {
        Self {
            tree,
            head: tree.vertex(head),
            same_id_edit,
            fits: vec![EMPTY],
            gaps: Vec::new(),
            late: Vec::new(),
            matched: false,
            met: Met::default(),
        }
    }

    /// Where the walk is: the best that fits.
    pub(super) fn at(&self) -> Vertex {
        self.fits[0]
    }

    /// Goes on to a message that plainly comes next: most do. What this doesn't do, [`step`](Self::step) does.
    pub(super) fn goes_on(&mut self, key: &Key, known: Option<Name>) -> bool {
        let Some(name) = known else { return false };
        let plain = match key.role {
            Role::User => self.tree.user_says(name, key.digest) != Some(false),
            Role::Assistant => true,
            Role::Tool | Role::System | Role::Developer | Role::Reasoning | Role::Activity => false,
        };
        plain && self.next(name)
    }

    /// Goes on to a name whose one place is the next one.
    fn next(&mut self, name: Name) -> bool {
        let [at] = self.fits.as_mut_slice() else { return false };
        let Some(place) = self.tree.next(*at, name) else { return false };
        *at = place;
        self.matched = true;
        true
    }

    /// Takes one message, whose own id stands for `known`.
    pub(super) fn step(&mut self, index: usize, message: &Message, digest: Digest, known: Option<Name>) -> Step {
        let (found, differs) = meaning(self.tree, message, digest, known, self.same_id_edit);
        let by_id = matches!(found, Meaning::Known(name) if known == Some(name));
        let fit = match found {
            Meaning::Known(name) => self.follow(name),
            Meaning::Answer(reply) => {
                let fit = self.follow(reply);
                if fit != Fit::Nowhere {
                    self.met.results.push(index);
                }
                fit
            }
            Meaning::Passed(reason) => {
                self.met.ignored.extend(reason.map(|reason| Ignored { index, id: message.id.clone(), reason }));
                Fit::Over
            }
            Meaning::New { .. } => Fit::Nowhere,
        };
        if differs && fit != Fit::Nowhere {
            self.met.ignored_edits.extend(message.id.clone());
        }
        match fit {
            Fit::Onward if by_id => Step::On,
            Fit::Onward | Fit::Over => Step::Over,
            Fit::Nowhere => Step::News,
        }
    }

    /// Goes on to a name's place, or passes over it where it was walked already or has no place yet.
    fn follow(&mut self, name: Name) -> Fit {
        if self.next(name) {
            return Fit::Onward;
        }
        let tree = self.tree;
        let (own, copies) = tree.places(name);
        if own.is_none_or(|place| place == EMPTY) && copies == 0 {
            return Fit::Over;
        }
        let places = self.places(name, own, copies);
        let readings = tree.readings();
        let mut fits: Vec<Vertex> = places.iter().copied().filter(|&place| self.extends_any(place)).collect();
        let onward = !fits.is_empty();
        let holds = |at: Vertex| places.iter().any(|&place| readings.extends(at, place)) || (!onward && tree.is_in(at, name));
        if !onward || self.fits.len() > 1 {
            fits.extend(self.fits.iter().copied().filter(|&at| holds(at)));
        }
        if fits.is_empty() {
            return Fit::Nowhere;
        }
        if !onward {
            self.late.push(name);
        }
        self.go(fits);
        if onward { Fit::Onward } else { Fit::Over }
    }

    fn extends_any(&self, place: Vertex) -> bool {
        self.fits.iter().any(|&at| place != at && self.tree.readings().extends(place, at))
    }

    /// The places of a name that are tried. Of a message with many copies the one on the head's way and those that come next; when
    /// none of these goes on, the newest.
    fn places(&self, name: Name, own: Option<Vertex>, copies: u32) -> Vec<Vertex> {
        let all = self.tree.copies(name).chain(own).filter(|&place| place != EMPTY);
        if copies <= COPIES_FEW {
            return all.collect();
        }
        let readings = self.tree.readings();
        let shown = own.map_or(name, |place| readings.shown(place));
        let next = self.fits.iter().filter_map(|&at| self.tree.child(at, shown));
        let mut places: Vec<Vertex> = self.tree.place_in(self.head, name).into_iter().chain(next).collect();
        if !places.iter().any(|&place| self.extends_any(place)) {
            places.extend(all.take(COPIES_MAX));
        }
        places
    }

    fn go(&mut self, mut fits: Vec<Vertex>) {
        let readings = self.tree.readings();
        if fits.len() > 1 {
            // By the age of the reader view, not of its newest node: compaction adds twins, and must not change what is chosen.
            fits.sort_unstable_by_key(|&place| std::cmp::Reverse((readings.extends(self.head, place), place)));
            fits.dedup();
            fits.truncate(CANDIDATES_MAX);
        }
        let next = |&place: &Vertex| self.fits.contains(&readings.parent(place)) || self.fits.contains(&place);
        let plain = fits.len() == 1 && fits.iter().all(next);
        let before = std::mem::replace(&mut self.fits, fits);
        if self.matched && !plain {
            self.gaps.push(Gap { before, after: self.fits.clone() });
        }
        self.matched = true;
    }

    /// What the view leaves out between the messages that it names, in order: at most 100 ids, and how many in all.
    pub(super) fn implied(&self) -> (Vec<NodeId>, usize) {
        let readings = self.tree.readings();
        let end = self.at();
        let gaps: Vec<(u32, u32)> = self.gaps.iter().filter_map(|gap| self.left_out(gap, end)).collect();
        if gaps.is_empty() {
            return (Vec::new(), 0);
        }
        let late: HashSet<Vertex, RandomState> = self.late.iter().filter_map(|&name| self.tree.place_in(end, name)).collect();
        let in_gap = |place: &&Vertex| {
            let depth = readings.depth(**place);
            gaps.get(gaps.partition_point(|&(_, last)| last < depth)).is_some_and(|&(first, _)| first <= depth)
        };
        let left_out: usize = gaps.iter().map(|&(first, last)| (last - first + 1) as usize).sum();
        let count = left_out - late.iter().filter(in_gap).count();
        let mut ids = Vec::new();
        for (first, last) in gaps {
            let most = u32::try_from(IMPLIED_MAX - ids.len() + late.len()).unwrap_or(u32::MAX);
            let taken = (last - first + 1).min(most);
            let mut between: Vec<Vertex> = readings.up(readings.above(end, first + taken - 1)).take(taken as usize).collect();
            between.reverse();
            let shown = between.iter().filter(|place| !late.contains(place)).map(|&place| readings.shown(place));
            ids.extend(shown.take(IMPLIED_MAX - ids.len()).map(|name| self.tree.name_id(name)));
        }
        (ids, count)
    }

    /// The first and last depth of what a gap leaves out on the way to `end`.
    fn left_out(&self, gap: &Gap, end: Vertex) -> Option<(u32, u32)> {
        let readings = self.tree.readings();
        let lower = gap.after.iter().copied().find(|&place| readings.extends(end, place))?;
        let uppers = gap.before.iter().copied().filter(|&at| readings.extends(lower, at));
        let upper = uppers.map(|at| readings.depth(at)).max()?;
        let last = readings.depth(lower).checked_sub(1)?;
        (upper < last).then_some((upper + 1, last))
    }
}
