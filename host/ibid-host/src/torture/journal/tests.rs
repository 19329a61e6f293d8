use super::*;

const HEADER: Header = Header { seed: 0x1122_3344_5566_7788, first: 8, blocks: 1 << 20 };
const COPY: Record =
    Record::Sent(Operation { sequence: 2, kind: Kind::Copy { source: 0x1000 }, lba: 0x2000, blocks: 0x0304 });

fn file(records: &[Record]) -> Vec<u8> {
    let mut bytes = HEADER.encode().to_vec();
    records.iter().for_each(|record| bytes.extend(record.encode()));
    bytes
}

fn all_records() -> Vec<Record> {
    let kinds = [
        Kind::Write,
        Kind::WriteSame,
        Kind::Zero,
        Kind::ZeroUnmap,
        Kind::Unmap,
        Kind::Copy { source: 3 },
        Kind::CompareAndWrite,
    ];
    let sent = kinds
        .into_iter()
        .zip(1..)
        .map(|(kind, sequence)| Record::Sent(Operation { sequence, kind, lba: sequence << 33, blocks: 7 }));
    let outcomes = [Outcome::Applied, Outcome::NotApplied, Outcome::Unknown];
    sent.chain(outcomes.into_iter().zip(1..).map(|(outcome, sequence)| Record::Answered(sequence, outcome))).collect()
}

#[test]
fn journal_records_round_trip() {
    let records = all_records();
    let bytes = file(&records);
    assert_eq!(decode(&bytes), Ok((HEADER, records, bytes.len())));
}

#[test]
fn journal_layout_is_fixed() {
    let header = HEADER.encode();
    assert_eq!(&header[..24], b"IBIDTORT\x01\0\0\0\0\x02\0\0\x88\x77\x66\x55\x44\x33\x22\x11");
    assert_eq!(&header[24..40], b"\x08\0\0\0\0\0\0\0\0\0\x10\0\0\0\0\0");
    let record = COPY.encode();
    assert_eq!(&record[..16], b"\x01\x06\0\0\x04\x03\0\0\x02\0\0\0\0\0\0\0");
    assert_eq!(&record[16..32], b"\0\x20\0\0\0\0\0\0\0\x10\0\0\0\0\0\0");
    assert_eq!(record[60..], crc32c::crc32c(&record[..60]).to_le_bytes());
}

#[test]
fn torn_last_record_is_dropped_at_any_length() {
    let whole = file(&[COPY]);
    for torn in 1..RECORD {
        let mut bytes = whole.clone();
        bytes.extend(&Record::Answered(2, Outcome::Applied).encode()[..torn]);
        assert_eq!(decode(&bytes), Ok((HEADER, vec![COPY], whole.len())), "{torn} bytes");
    }
}

#[test]
fn damage_before_the_last_record_is_an_error() {
    let mut bytes = file(&[COPY, COPY]);
    bytes[RECORD + 20] ^= 1;
    assert_eq!(decode(&bytes), Err(JournalError::Damaged(0)));
}

#[test]
fn other_files_are_refused_as_journal() {
    assert_eq!(decode(b""), Err(JournalError::Header));
    assert_eq!(decode(&[0; 200]), Err(JournalError::Header));
    let mut other = HEADER.encode();
    other[8] = 2;
    assert_eq!(decode(&seal(other)), Err(JournalError::Version { version: 2, block_bytes: 512 }));
}
