//! Text exchanges in the full feature phase (RFC 7143 11.10): SendTargets and keys that may change.

use super::TargetConnection;
use super::state::{Phase, TextExchange};
use super::types::{Event, RequestId, SendTargets, TargetRecord};
use crate::{
    pdu::{NO_TAG, RejectReason, TextRequest, TextResponse, WireLun},
    text::{self, NOT_UNDERSTOOD, Pairs, REJECT, is_operational, name, parse_segment_length},
};

impl TargetConnection {
    pub(super) fn text_request(&mut self, request: TextRequest, events: &mut Vec<Event>) -> Result<(), RejectReason> {
        if request.target_transfer_tag == NO_TAG {
            // A new exchange also ends an open one (RFC 7143 11.10.4).
            self.text = TextExchange::new(self.text.limit);
            self.text.initiator_task_tag = request.initiator_task_tag;
        } else if self.text.transfer_tag != Some(request.target_transfer_tag) {
            return Err(RejectReason::ProtocolError);
        }
        if request.continued && request.final_ {
            return Err(RejectReason::ProtocolError);
        }
        self.text.final_ = request.final_;
        if !self.text.outgoing.is_empty() {
            // The initiator requests the rest of our text; it must not send text of its own.
            if !request.data.is_empty() {
                return Err(RejectReason::ProtocolError);
            }
            self.send_text();
            return Ok(());
        }
        let text = self.text.incoming.push(&request.data, request.continued);
        match text.map_err(|_| RejectReason::ProtocolError)? {
            None => self.send_text(),
            Some(pairs) => self.answer_text(&pairs, events),
        }
        Ok(())
    }

    fn answer_text(&mut self, pairs: &Pairs, events: &mut Vec<Event>) {
        let mut answers = Pairs::new();
        let mut scope = None;
        for (key, value) in pairs {
            match key.as_str() {
                name::SEND_TARGETS => scope = Some(self.scope(value)),
                // RFC 7143 13.12: this key may be declared again in the full feature phase.
                name::MAX_RECV_DATA_SEGMENT_LENGTH => match parse_segment_length(value) {
                    Some(length) => self.parameters.max_send_segment = length,
                    None => answers.push((key.clone(), REJECT.to_owned())),
                },
                // Values negotiated at login do not change.
                _ if is_operational(key) => answers.push((key.clone(), REJECT.to_owned())),
                _ => answers.push((key.clone(), NOT_UNDERSTOOD.to_owned())),
            }
        }
        match scope {
            None => {
                self.text.outgoing = text::encode_pairs(&answers);
                self.send_text();
            }
            Some(scope) => {
                let id = RequestId(self.next_request);
                self.next_request = self.next_request.wrapping_add(1);
                self.text.pending_send_targets = Some((id, answers));
                events.push(Event::SendTargets { id, scope });
            }
        }
    }

    /// RFC 7143 appendix C: "All" is for discovery sessions. Some initiators send it in a normal
    /// session; the answer is then that to the empty value, the target of the session.
    fn scope(&self, value: &str) -> SendTargets {
        match value {
            "All" if self.discovery => SendTargets::All,
            "All" | "" => SendTargets::ThisSession,
            name => SendTargets::Named(name.to_lowercase()),
        }
    }

    /// Answers a SendTargets request with the targets that the initiator may access.
    pub fn complete_send_targets(&mut self, id: RequestId, targets: &[TargetRecord]) {
        let Some((_, answers)) = self.text.pending_send_targets.take_if(|(asked, _)| *asked == id) else { return };
        let mut text: Vec<(&str, &str)> = answers.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        for target in targets {
            text.push((name::TARGET_NAME, &target.name));
            text.extend(target.addresses.iter().map(|address| (name::TARGET_ADDRESS, address.as_str())));
        }
        self.text.outgoing = text::encode(text);
        if self.phase == Phase::Open {
            self.send_text();
        }
    }

    /// Sends as much text as one PDU holds. The exchange is complete when neither end has more
    /// text.
    fn send_text(&mut self) {
        let length = self.text.outgoing.len().min(self.parameters.max_send_segment as usize);
        let data = self.text.outgoing.split_to(length);
        let continued = !self.text.outgoing.is_empty();
        let final_ = self.text.final_ && !continued && !self.text.incoming.is_open();
        let tag = if final_ { None } else { Some(self.transfer_tag()) };
        self.text.transfer_tag = tag;
        let response = TextResponse {
            final_,
            continued,
            lun: WireLun::default(),
            initiator_task_tag: self.text.initiator_task_tag,
            target_transfer_tag: tag.unwrap_or(NO_TAG),
            sn: self.take_sn(),
            data,
        };
        self.push(&response);
    }
}
