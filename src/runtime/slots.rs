//! Turns that run at a time: of the process, and of each tenant.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::Limits;
use crate::ids::Tenant;
use crate::protocol::{Code, Refusal};

/// The turns that run.
#[derive(Debug, Default)]
pub struct Slots(Mutex<Taken>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    tenants: HashMap<Tenant, usize>,
}

/// One turn's place, given back when it is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Arc<Slots>,
    tenant: Tenant,
}

impl Slots {
    /// A place for a turn that is to begin, when there is one.
    pub fn take(self: &Arc<Self>, tenant: &Tenant, limits: &Limits) -> Result<Slot, Refusal> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let refuse = |most: usize, whose: &str| {
            let text = format!("{most} turns {whose} run, the most that are allowed; send it again when one has ended");
            Err(Refusal::new(Code::TooManyTurns, text))
        };
        if taken.all >= limits.running_turns_max.get() {
            return refuse(taken.all, "of this server");
        }
        let of_tenant = taken.tenants.get(tenant).copied().unwrap_or_default();
        if of_tenant >= limits.tenant_turns_max.get() {
            return refuse(of_tenant, "of this tenant");
        }
        Ok(self.add(&mut taken, tenant))
    }

    /// A place for a turn that goes on in any case: it was accepted before.
    pub fn enter(self: &Arc<Self>, tenant: &Tenant) -> Slot {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.add(&mut taken, tenant)
    }

    fn add(self: &Arc<Self>, taken: &mut Taken, tenant: &Tenant) -> Slot {
        taken.all += 1;
        *taken.tenants.entry(tenant.clone()).or_default() += 1;
        Slot { slots: self.clone(), tenant: tenant.clone() }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all -= 1;
        if let Some(count) = taken.tenants.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                taken.tenants.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(text: &str) -> Limits {
        let rest = "readers_max = 1\nsession_requests_max = 1\nreader_batches_max = 1\nreader_bytes_max = 1\ncalls_per_turn_max = 1\nqueue_turns_max = 1\n\
                    queue_messages_max = 1\nreply_bytes_max = 1\nidle_secs = 1\ndrain_secs = 1\n";
        toml::from_str(&format!("{rest}{text}")).unwrap()
    }

    #[test]
    fn one_more_than_allowed_waits_until_one_ends() {
        let (slots, limits) = (Arc::new(Slots::default()), limits("running_turns_max = 3\ntenant_turns_max = 2"));
        let [one, other] = ["one", "other"].map(Tenant::from);
        let first = slots.take(&one, &limits).unwrap();
        let _second = slots.take(&one, &limits).unwrap();
        let refused = slots.take(&one, &limits).unwrap_err();
        assert_eq!((refused.code, refused.message.contains("2 turns of this tenant")), (Code::TooManyTurns, true));
        let _third = slots.take(&other, &limits).unwrap();
        assert!(slots.take(&other, &limits).unwrap_err().message.contains("3 turns of this server"));
        drop(first);
        let recovered = slots.enter(&other);
        assert!(slots.take(&one, &limits).is_err(), "what goes on in any case takes a place too");
        drop(recovered);
        assert!(slots.take(&one, &limits).is_ok());
    }
}
