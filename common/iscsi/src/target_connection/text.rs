//! Texts in the full feature phase (RFC 7143 11.10): SendTargets, and keys that may still change.

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
            // A new exchange, which also ends one that was left open (RFC 7143 11.10.4).
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
            // The initiator asks for the rest of our text, and may not say anything meanwhile.
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
                // RFC 7143 13.12: may be declared again in the full feature phase, and holds from then on.
                name::MAX_RECV_DATA_SEGMENT_LENGTH => match parse_segment_length(value) {
                    Some(length) => self.parameters.max_send_segment = length,
                    None => answers.push((key.clone(), REJECT.to_owned())),
                },
                // What was settled at login stays.
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
                self.text.asked = Some((id, answers));
                events.push(Event::SendTargets { id, scope });
            }
        }
    }

    /// RFC 7143 appendix C: "All" is for discovery sessions. In a normal session it is answered as the empty value is,
    /// with the target of the session: initiators do ask so, and nothing is given away.
    fn scope(&self, value: &str) -> SendTargets {
        match value {
            "All" if self.discovery => SendTargets::All,
            "All" | "" => SendTargets::ThisSession,
            name => SendTargets::Named(name.to_lowercase()),
        }
    }

    /// These are the targets the initiator may see.
    pub fn complete_send_targets(&mut self, id: RequestId, targets: &[TargetRecord]) {
        let Some((_, answers)) = self.text.asked.take_if(|(asked, _)| *asked == id) else { return };
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

    /// Sends as much of the text as one PDU takes. The exchange is over when both ends have said everything.
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
