//! What is set, and the rules that are not ours.

/// How long a lease lives, and how long with renewals, milliseconds.
pub(crate) const TTL: i64 = 60_000;
pub(crate) const HOLD_MAX: i64 = 100_000;

/// What is set for a server, and what is wrong with the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    /// Whether admissions fold.
    pub(crate) folding: bool,
    /// Whether the regular pass goes on all the time; else it never comes.
    pub(crate) passing: bool,
    /// One rule is another one: only to show that it is missed.
    pub(crate) fault: Option<Fault>,
}

/// Rules that are not ours. The first word is what they are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    ExpiryAnInstantLate,
    EndOfAnyLink,
    SaveByAnyLink,
    SaveChecksRevisionFirst,
    SaveForgetsOperations,
    SaveUnderAnEndedLease,
    RenewAfterExpiry,
    RenewCountsFromExpiry,
    FoldIntoAnEditedTail,
    StartOfAnEditedHead,
    DisconnectWithoutHold,
    DisconnectEndsLaterLeases,
    GenerationBeginsAnew,
    EndWithoutSaveStarts,
    MergeLeavesTheLease,
}

impl Fault {
    pub(crate) const ALL: [Self; 15] = [
        Self::ExpiryAnInstantLate,
        Self::EndOfAnyLink,
        Self::SaveByAnyLink,
        Self::SaveChecksRevisionFirst,
        Self::SaveForgetsOperations,
        Self::SaveUnderAnEndedLease,
        Self::RenewAfterExpiry,
        Self::RenewCountsFromExpiry,
        Self::FoldIntoAnEditedTail,
        Self::StartOfAnEditedHead,
        Self::DisconnectWithoutHold,
        Self::DisconnectEndsLaterLeases,
        Self::GenerationBeginsAnew,
        Self::EndWithoutSaveStarts,
        Self::MergeLeavesTheLease,
    ];
}
