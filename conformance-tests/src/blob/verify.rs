//! What a verification of the store says about the bytes of blobs.

use store_core::{
    BlobRef, IgnoreProgress, ObjectKey,
    inspect::{FindingKind, Inspection},
};

use super::helpers::put;
use crate::{
    Failure, Given, Verdict,
    check::{expect, expect_eq},
    object::helpers::{list, numbered_bytes, objects, upload},
};

/// Verifies the store; none if it cannot be verified.
async fn verify(given: &Given) -> Result<Option<Inspection>, Failure> {
    let store = given.store();
    let Some(inspector) = store.inspector() else { return Ok(None) };
    Ok(Some(inspector.verify(&IgnoreProgress).await?))
}

/// The key of the object with the bytes of a blob.
async fn key_of(given: &Given, blob: &BlobRef) -> Result<ObjectKey, Failure> {
    let listed = list(&*objects(given)?).await?;
    let found = listed.into_iter().find(|object| object.key.hash().as_ref() == Some(&blob.hash));
    found.map(|object| object.key).ok_or_else(|| Failure::new("a blob has no object"))
}

/// A verification reads the bytes of every blob. It finds each one whose bytes were changed, cut or lengthened, or are
/// missing, and names it. With the bytes that were put it finds nothing.
pub(super) async fn changed_and_missing_bytes_are_found(given: &Given) -> Verdict {
    let bytes = numbered_bytes(1_200_000);
    let (blob, other) = (put(given, &bytes).await?, put(given, b"other").await?);
    let Some(sound) = verify(given).await? else { return Ok(()) };
    expect_eq((sound.findings.len(), sound.notes.len(), sound.objects), (0, 0, 2))?;
    let (objects, key) = (objects(given)?, key_of(given, &blob).await?);
    let mut changed = bytes.clone();
    changed[1_100_000] ^= 1;
    let longer = [&bytes[..], b"x"].concat();
    for (what, replacement, kind) in [
        ("changed", Some(&changed[..]), FindingKind::Damaged),
        ("cut", Some(&bytes[..1_048_576]), FindingKind::Damaged),
        ("lengthened", Some(&longer[..]), FindingKind::Damaged),
        ("missing", None, FindingKind::DanglingReference),
    ] {
        objects.delete_objects(std::slice::from_ref(&key)).await?;
        if let Some(replacement) = replacement {
            upload(&*objects, &key, replacement, 1 << 20).await?;
        }
        let found = verify(given).await?.map(|inspection| inspection.findings).unwrap_or_default();
        let [finding] = &found[..] else { return Err(Failure::new(format!("bytes that are {what}: {found:?}"))) };
        expect_eq(finding.kind, kind)?;
        let names_blob = |blob: &BlobRef| finding.detail.contains(blob.hash.as_str());
        expect(names_blob(&blob) && !names_blob(&other), format!("bytes that are {what}: {finding:?}"))?;
    }
    upload(&*objects, &key, &bytes, 1 << 20).await?;
    let mended = verify(given).await?.map(|inspection| (inspection.findings, inspection.notes));
    expect_eq(mended, Some((Vec::new(), Vec::new())))
}

/// An object that an interrupted call has left is a note, and no damage.
pub(super) async fn what_interrupted_calls_left_is_no_damage(given: &Given) -> Verdict {
    let blob = put(given, b"a blob").await?;
    let objects = objects(given)?;
    let left = ObjectKey::unused(&blob.hash);
    upload(&*objects, &left, b"a blob", 1 << 20).await?;
    let Some(Inspection { findings, notes, .. }) = verify(given).await? else { return Ok(()) };
    expect_eq(findings, Vec::new())?;
    let [note] = &notes[..] else { return Err(Failure::new(format!("there is no note about it: {notes:?}"))) };
    expect(note.place.contains(left.as_str()), format!("the note does not name it: {note:?}"))
}
