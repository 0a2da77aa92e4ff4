//! Bounds of reconciling: many messages left out, many copies, many branches that fit.

use headwater::engine::{self, View};
use headwater::ids::NodeId;
use headwater::protocol::{Message, Role, ViewOptions};

use crate::talk::{Asked, Talk};

fn user(id: &str) -> Message {
    Message::text(Role::User, id).with_id(id.into())
}

fn users(ids: &[&str]) -> Vec<Message> {
    ids.iter().map(|id| user(id)).collect()
}

/// Submits a view that asks for nothing.
fn write(talk: &mut Talk, view: Vec<Message>) -> headwater::protocol::Accepted {
    talk.submit(&Asked { run: Some(false), ..Asked::view(view) }).unwrap().1
}

#[test]
fn of_many_implied_messages_the_first_hundred_are_named() {
    let mut talk = Talk::default();
    let ids: Vec<String> = (0..300).map(|n| format!("u{n}")).collect();
    write(&mut talk, ids.iter().map(|id| user(id)).collect());
    let between = |from: usize, to: usize| ids[from..to].iter().map(|id| NodeId::from(id.as_str())).collect::<Vec<_>>();
    let accepted = write(&mut talk, users(&["u0", "u299"]));
    assert_eq!((accepted.implied_count, accepted.implied), (298, between(1, 101)));
    // What comes late is named after all; two gaps are told in their order.
    let accepted = write(&mut talk, users(&["u0", "u50", "u7", "u299", "u60", "u8"]));
    let told = [between(1, 7), between(9, 50), between(51, 60), between(61, 105)].concat();
    assert_eq!((accepted.implied_count, accepted.implied), (300 - 6, told[..100].to_vec()));
}

#[test]
fn of_many_copies_the_right_one_is_found() {
    let mut talk = Talk::default();
    write(&mut talk, users(&["u0", "m", "n"]));
    for branch in 1..=300 {
        write(&mut talk, users(&[&format!("u{branch}"), "m", "n"]));
    }
    for branch in [0, 1, 150, 300] {
        let first = format!("u{branch}");
        let seen = talk.session.tree.len();
        let accepted = write(&mut talk, users(&[&first, "m", "n"]));
        assert_eq!((accepted.recorded.len(), talk.session.tree.len()), (0, seen), "nothing is copied again");
        assert_eq!(talk.reader_view(), [first.as_str().into(), "m".into(), "n".into()]);
        // Without its beginning: the active branch fits, however many others do.
        let accepted = write(&mut talk, users(&["m", "n"]));
        assert!(accepted.recorded.is_empty());
        assert_eq!(talk.reader_view()[0], first.as_str().into());
    }
    // Nothing active fits: the newest that does.
    write(&mut talk, users(&["elsewhere"]));
    write(&mut talk, users(&["m", "n"]));
    assert_eq!(talk.reader_view()[0], "u300".into());
}

#[test]
fn of_branches_that_fit_at_first_the_one_that_goes_on_is_found() {
    let mut talk = Talk::default();
    for branch in 0..10 {
        write(&mut talk, users(&[&format!("u{branch}"), "m", &format!("end{branch}")]));
    }
    for branch in 0..10 {
        let view = View::new(users(&["m", &format!("end{branch}"), "new"]));
        let found = engine::reconcile(&talk.session.tree, talk.session.head, &view, ViewOptions::default()).unwrap();
        assert_eq!(found.new_from, 2);
        let landing = &talk.session.tree.id(found.landing.unwrap());
        assert_eq!(landing, &NodeId::from(format!("end{branch}")));
    }
}
