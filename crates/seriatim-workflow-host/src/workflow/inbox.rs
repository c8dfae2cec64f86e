//! The items that wait for one workflow, in order.

use std::collections::VecDeque;

use super::item::{Item, Request};
use crate::size;

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    items: VecDeque<Item>,
    /// Updates that wait for the open run's first activation, which is not due yet. Nothing of them is written: one whose
    /// sender waits no longer is dropped.
    held_back: VecDeque<Box<Request>>,
    /// How many of both callers of the host wait for.
    awaited: usize,
}

impl Inbox {
    /// How many items callers of the host wait for.
    pub(crate) const fn awaited(&self) -> usize {
        self.awaited
    }

    pub(crate) fn front(&self) -> Option<&Item> {
        self.items.front()
    }

    pub(crate) fn push_back(&mut self, item: Item) {
        self.awaited += usize::from(item.is_awaited());
        self.items.push_back(item);
    }

    /// Puts an item before all others.
    pub(crate) fn push_front(&mut self, item: Item) {
        self.awaited += usize::from(item.is_awaited());
        self.items.push_front(item);
    }

    pub(crate) fn pop(&mut self) -> Option<Item> {
        let item = self.items.pop_front()?;
        self.awaited -= usize::from(item.is_awaited());
        Some(item)
    }

    /// Holds an update back until the open run's first activation.
    pub(crate) fn hold_back(&mut self, request: Box<Request>) {
        self.awaited += 1;
        self.held_back.push_back(request);
    }

    /// What was held back comes next.
    pub(crate) fn release(&mut self) {
        while let Some(request) = self.held_back.pop_back() {
            self.items.push_front(Item::Request(request));
        }
    }

    /// Takes out the updates for the run's first activation: as many as one event has room for, and the last of them may
    /// have a key. The others come next.
    pub(crate) fn take_held_back(&mut self, limit: usize, bytes_max: usize) -> Vec<Request> {
        let (mut taken, mut bytes, mut is_keyed) = (Vec::new(), 0, false);
        while !is_keyed
            && taken.len() < limit
            && let Some(request) = self.held_back.pop_front()
        {
            if request.responder.is_closed() {
                self.awaited -= 1;
                continue;
            }
            bytes += size::job_bytes(&request.job);
            is_keyed = request.key.is_some();
            if bytes > bytes_max && !taken.is_empty() {
                self.held_back.push_front(request);
                break;
            }
            self.awaited -= 1;
            taken.push(*request);
        }
        self.release();
        taken
    }

    /// Takes out what callers wait for, but for what is held back.
    pub(crate) fn take_awaited(&mut self) -> Vec<Item> {
        self.extract(Item::is_awaited)
    }

    /// Takes out the items that are chosen.
    pub(crate) fn extract(&mut self, is_chosen: impl FnMut(&Item) -> bool) -> Vec<Item> {
        let (chosen, rest): (Vec<Item>, Vec<Item>) = self.items.drain(..).partition(is_chosen);
        self.items = rest.into();
        self.awaited -= chosen.iter().filter(|item| item.is_awaited()).count();
        chosen
    }

    /// Takes out everything.
    pub(crate) fn drain(&mut self) -> Vec<Item> {
        self.release();
        self.awaited = 0;
        self.items.drain(..).collect()
    }
}
