//! Where views land in a tree with epochs, held against the rule at its plainest: every reader view is a list, and everything is found
//! by looking at all of them.

use headwater::engine::{self, Ix, Session, Tree, View};
use headwater::ids::NodeId;
use headwater::protocol::{Message, NodeKind, Role, ViewOptions};

/// The reader views of all nodes, as lists of the ids under which messages are shown.
struct Lists {
    all: Vec<Vec<NodeId>>,
    head: Option<Ix>,
    /// Root to head.
    path: Vec<Ix>,
    /// Whether a view may land on a node.
    lands: Vec<bool>,
}

impl Lists {
    fn of(session: &Session) -> Self {
        let tree = &session.tree;
        let mut all: Vec<Vec<NodeId>> = Vec::new();
        let mut lands = Vec::new();
        for ix in 0..u32::try_from(tree.len()).unwrap() {
            let node = tree.node(ix);
            let above = |at: Option<Ix>| at.map_or(Vec::new(), |at| all[at as usize].clone());
            let own = |mut list: Vec<NodeId>| {
                if node.shown && node.kind == NodeKind::Message {
                    list.push(tree.shown_id(ix));
                }
                list
            };
            let list = tree.reads_as(ix).map_or_else(|| own(above(tree.parent(ix))), above);
            all.push(list);
            lands.push(node.kind != NodeKind::Custom || follows_a_whole_reply(tree, ix));
        }
        Self { all, head: session.head, path: engine::path(session), lands }
    }

    fn head(&self) -> Vec<NodeId> {
        self.head.map_or(Vec::new(), |head| self.all[head as usize].clone())
    }

    /// The reader view that a view goes on from: the walk, with everything that fits.
    fn walk(&self, view: &[NodeId]) -> Vec<NodeId> {
        let head = self.head();
        let age = |list: &Vec<NodeId>| self.all.iter().position(|other| other == list);
        let mut fits: Vec<Vec<NodeId>> = vec![Vec::new()];
        for id in view {
            let onward =
                |list: &&Vec<NodeId>| list.last() == Some(id) && fits.iter().any(|fit| list.len() > fit.len() && list.starts_with(fit));
            let mut next: Vec<Vec<NodeId>> = self.all.iter().filter(onward).cloned().collect();
            if next.is_empty() || fits.len() > 1 {
                next.extend(fits.iter().filter(|fit| fit.contains(id)).cloned());
            }
            next.sort_by_key(|list| std::cmp::Reverse((head.starts_with(list), age(list))));
            next.dedup();
            fits = next;
        }
        fits.swap_remove(0)
    }

    /// Its deepest twin on the head's path, else the newest.
    fn landing(&self, view: &[NodeId]) -> Option<Ix> {
        let at = self.walk(view);
        let is_twin = |ix: usize| self.lands[ix] && self.all[ix] == at;
        let on_path = self.path.iter().rev().copied().find(|&ix| is_twin(ix as usize));
        // Every path begins with the empty one.
        let newest = || (0..self.all.len()).rev().find(|&ix| is_twin(ix) && !at.is_empty());
        on_path.or_else(|| newest().map(|ix| u32::try_from(ix).unwrap()))
    }
}

fn follows_a_whole_reply(tree: &Tree, custom: Ix) -> bool {
    let last = tree.reader_up(Some(custom)).find(|&ix| tree.node(ix).kind == NodeKind::Message);
    last.is_some_and(|ix| tree.node(ix).role == Role::Assistant && !tree.node(ix).partial)
}

/// Every node's reader view, as a front end holds it: what it lands on as it is, and with an edit at its end.
pub fn are_as_the_rule_says(session: &Session) {
    let lists = Lists::of(session);
    let tree = &session.tree;
    let reconciled = |messages: &[Message]| {
        let view = View::new(messages.to_vec());
        engine::reconcile(tree, session.head, &view, ViewOptions::default()).unwrap()
    };
    let mut seen: Vec<&Vec<NodeId>> = Vec::new();
    for (ix, list) in (0..).zip(&lists.all) {
        if list.is_empty() || seen.contains(&list) {
            continue;
        }
        seen.push(list);
        let mut shown: Vec<Message> = tree
            .reader_up(Some(ix))
            .filter(|&ix| tree.node(ix).kind == NodeKind::Message)
            .map(|ix| Message::clone(session.content(ix).expect("few contents are all in memory")).with_id(tree.shown_id(ix)))
            .collect();
        shown.reverse();
        let expected = lists.landing(list);
        let found = reconciled(&shown);
        let name = |ix: Option<Ix>| ix.map(|ix| tree.id(ix));
        assert_eq!((name(found.landing), found.news.len()), (name(expected), 0), "where {list:?} lands");
        // An edit of its last message lands on what is before that.
        shown.pop();
        shown.push(Message::text(Role::User, "says otherwise").with_id("edited".into()));
        let found = reconciled(&shown);
        let expected = lists.landing(&list[..list.len() - 1]);
        assert_eq!((name(found.landing), found.news.len()), (name(expected), 1), "where an edit of {list:?} lands");
        must_stand(session, found.landing, &list[..list.len() - 1]);
    }
}

/// What a model goes on from holds the last message word for word, or stands exactly for what ends with it.
fn must_stand(session: &Session, landing: Option<Ix>, list: &[NodeId]) {
    let (tree, Some(landing)) = (&session.tree, landing) else { return };
    let said = tree.reader_up(Some(landing)).find(|&ix| tree.node(ix).kind == NodeKind::Message).map(|ix| tree.node(ix).original);
    let path: Vec<Ix> = tree.up(Some(landing)).collect();
    let stands = path.iter().any(|&ix| Some(tree.node(ix).original) == said);
    let boundary = tree.reads_as(tree.root(landing)).is_some_and(|to| tree.vertex(to) == tree.node(landing).vertex);
    assert!(list.is_empty() || stands || boundary, "{list:?} stands where it lands, {}", tree.id(landing));
}
