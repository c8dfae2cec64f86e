//! Payloads on the wire.
//!
//! Both sides keep notes and bytes, so a payload crosses as it is: what our runtime writes as `json/plain` and
//! `binary/null` is what the JSON converters of the other SDKs write and read.

use std::collections::HashMap;
use std::hash::BuildHasher;

use seriatim_workflow::{Headers, Payload};
use temporalio_common::protos::temporal::api::common::v1::{
    Payload as WirePayload, Payloads, SearchAttributes,
};

use crate::untranslatable::Untranslatable;

pub(crate) fn read_payload(payload: WirePayload) -> Result<Payload, Untranslatable> {
    if !payload.external_payloads.is_empty() {
        return Err(Untranslatable::Refused {
            what: "a payload that is stored outside the history".to_owned(),
            instead: "send the value itself",
        });
    }
    let metadata = payload.metadata.into_iter().map(|(name, value)| (name, value.into())).collect();
    Ok(Payload { metadata, data: payload.data.into() })
}

pub(crate) fn write_payload(payload: Payload) -> WirePayload {
    let metadata = payload.metadata.into_iter().map(|(name, value)| (name, value.into())).collect();
    WirePayload { metadata, data: payload.data.into(), external_payloads: Vec::new() }
}

pub(crate) fn read_payloads(payloads: Vec<WirePayload>) -> Result<Vec<Payload>, Untranslatable> {
    payloads.into_iter().map(read_payload).collect()
}

pub(crate) fn write_payloads(payloads: Vec<Payload>) -> Vec<WirePayload> {
    payloads.into_iter().map(write_payload).collect()
}

/// A list that may not be there: none and empty are the same.
pub(crate) fn read_list(payloads: Option<Payloads>) -> Result<Vec<Payload>, Untranslatable> {
    payloads.map_or_else(|| Ok(Vec::new()), |payloads| read_payloads(payloads.payloads))
}

pub(crate) fn write_list(payloads: Vec<Payload>) -> Option<Payloads> {
    (!payloads.is_empty()).then(|| Payloads { payloads: write_payloads(payloads) })
}

pub(crate) fn read_headers<S: BuildHasher>(
    headers: HashMap<String, WirePayload, S>,
) -> Result<Headers, Untranslatable> {
    headers.into_iter().map(|(name, value)| Ok((name, read_payload(value)?))).collect()
}

pub(crate) fn write_headers(headers: Headers) -> HashMap<String, WirePayload> {
    headers.into_iter().map(|(name, value)| (name, write_payload(value))).collect()
}

/// Search attributes; none where there are none, so that a new run keeps those that it would inherit.
pub(crate) fn write_attributes(attributes: Headers) -> Option<SearchAttributes> {
    (!attributes.is_empty()).then(|| SearchAttributes { indexed_fields: write_headers(attributes) })
}

#[cfg(test)]
mod tests {
    use temporalio_common::protos::temporal::api::common::v1::payload::ExternalPayloadDetails;

    use super::*;

    #[test]
    fn every_payload_comes_back() {
        let mut odd = Payload::encoded("binary/encrypted", &b"\xff\x00"[..]);
        odd.metadata.insert("key".to_owned(), b"7"[..].into());
        for payload in [Payload::json(&("tea", 3)).unwrap(), Payload::null(), Payload::default(), odd] {
            assert_eq!(read_payload(write_payload(payload.clone())).unwrap(), payload);
        }
    }

    #[test]
    fn json_is_written_as_other_sdks_write_it() {
        let payload = write_payload(Payload::json("Ada").unwrap());
        assert_eq!(payload.metadata["encoding"], b"json/plain");
        assert_eq!(payload.data, br#""Ada""#);
        let null = write_payload(Payload::json(&()).unwrap());
        assert_eq!(
            (null.metadata["encoding"].as_slice(), null.data.as_slice()),
            (&b"binary/null"[..], &b""[..])
        );
    }

    #[test]
    fn a_value_that_is_elsewhere_is_refused() {
        let payload = WirePayload {
            external_payloads: vec![ExternalPayloadDetails { size_bytes: 9 }],
            ..Default::default()
        };
        assert!(matches!(read_payload(payload), Err(Untranslatable::Refused { .. })));
    }

    #[test]
    fn nothing_is_not_a_list() {
        assert_eq!(write_list(Vec::new()), None);
        assert_eq!(read_list(None).unwrap(), []);
        assert_eq!(write_attributes(Headers::new()), None);
    }
}
