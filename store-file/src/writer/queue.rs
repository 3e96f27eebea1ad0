//! Changes of a thread's pending input.

use store_core::{
    Error, Result, Timestamp,
    pending::{self, QueueDecision},
};

use super::{Answer, Ask, Round};
use crate::line::{self, Line, ThreadLine};

impl Round<'_> {
    pub(super) fn queue(&mut self, ask: &Ask, now: Timestamp) -> Result<Answer> {
        let (view, setting) = (self.view(), self.setting(now));
        match ask {
            Ask::Append(request) => {
                let change = pending::append(&view, request, setting)?;
                self.put_queue(change).map(Answer::AppendedInputs)
            }
            Ask::Change(request) => {
                let change = pending::update(&view, request, setting)?;
                self.put_queue(change).map(|input| Answer::Input(Box::new(input)))
            }
            Ask::Retract(id) => {
                let change = pending::retract(&view, id, setting)?;
                self.put_queue(change).map(|input| Answer::Input(Box::new(input)))
            }
            Ask::Reorder(request) => {
                let change = pending::reorder(&view, request, setting)?;
                self.put_queue(change).map(Answer::Revision)
            }
            _ => Err(Error::closed()),
        }
    }

    fn put_queue<T>(&mut self, change: QueueDecision<T>) -> Result<T> {
        let Some(plan) = change.plan else { return Ok(change.answer) };
        let stored = &plan.thread;
        let mut lines = Vec::new();
        if plan.creates_thread {
            lines.push(Line::Thread(ThreadLine::of(&stored.thread)));
        }
        lines.extend(line::queue_lines(&stored.queue, plan.write));
        let texts: Vec<String> = lines.iter().map(Line::encode).collect();
        let commit = self.bare(stored);
        self.group(stored.thread.generation(), lines, &texts, commit)?;
        Ok(change.answer)
    }
}
