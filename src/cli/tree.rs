//! `headwater tree SESSION`: draws what the server has.

use super::client::Client;
use super::error::Error;
use crate::draw::{draw, draw_waiting};
use crate::ids::NodeId;
use crate::protocol::{SessionPage, TreeNode, TreePage};

/// Nodes a page.
const PAGE: &str = "5000";

/// A whole tree.
#[derive(Clone, Debug, Default)]
pub(super) struct Whole {
    /// Where the next message attaches.
    pub head: Option<NodeId>,
    /// Parents before children.
    pub nodes: Vec<TreeNode>,
}

/// Reads a session's whole tree, page by page.
pub(super) async fn whole(client: &Client, session: &str, raw: bool) -> Result<Whole, Error> {
    let mut tree = Whole::default();
    let mut after: Option<NodeId> = None;
    loop {
        let view = if raw { "raw" } else { "reader" };
        let mut query = vec![("view", view), ("limit", PAGE)];
        query.extend(after.as_ref().map(|after| ("after", after.as_str())));
        let page: TreePage = client.get(&["v1", "sessions", session, "tree"], &query).await?;
        tree.head = page.head_id;
        tree.nodes.extend(page.nodes);
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(tree),
        }
    }
}

/// The drawing, and below it what waits and what goes on.
pub(super) async fn tree(client: &Client, session: &str, raw: bool) -> Result<String, Error> {
    let tree = whole(client, session, raw).await?;
    let page: SessionPage = client.get(&["v1", "sessions", session], &[]).await?;
    Ok(draw(&tree.nodes, tree.head.as_ref()) + &draw_waiting(&page))
}
