//! Variants of the server and of the client that are wrong on purpose. The simulation finds each of
//! them: that is how it is known to look.

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Broken {
    /// The receipt is written in a transaction of its own, behind the entry's.
    ReceiptApart,
    /// A receipt answers whatever is sent with its ID.
    NoFingerprint,
    /// The receipt is looked up before anybody asks whether the session is still the same.
    LookupBeforeAuthorization,
    /// A replay adds its prompt once more.
    ReplayInserts,
    /// The answer leaves before the commit.
    ReplyBeforeCommit,
    /// A crash takes the newest commit along.
    CrashForgets,
    /// A reservation that a crash interrupted runs on as if the agent had it.
    RecoveryLosesPrompt,
    /// The leases of a link that is gone stay.
    LeaseOutlivesLink,
    /// An edit begins although somebody else edits.
    TwoLeases,
    /// Whoever saves, saves.
    SaveWithoutLease,
    /// A save is applied as often as it comes.
    OperationIgnored,
    /// A new link of a client leaves what its old one delivered to come later.
    OldLinkGoesOn,
    /// Events are told before the commit that makes them true.
    EventsBeforeCommit,
    /// Missed events are not told again after a reconnect.
    ResumeSkips,
    /// A retry has a new ID.
    NewIdOnRetry,
    /// A retry has another text.
    OtherTextOnRetry,
    /// A prompt does not wait for the answer to the one before.
    TwoOpenSends,
    /// What proved acceptance in an earlier life of a session is taken for proof in this one.
    OldLifeProves,
    /// A status that comes late is taken for the newest.
    OldStatusWins,
    /// The answer to an earlier renewal is taken for those to later ones.
    OldRenewalAdopted,
    /// A prompt leaves before its row is on disk.
    SendsUnwritten,
    /// What a dead client sent is sent again by its heir.
    HeirResends,
    /// Rows stay in the journal when they are over.
    RowsStay,
    /// A prompt is sent again although nobody said that this is safe.
    RetriesUnannounced,
    /// Any refusal of a retry is taken for the proof that the server has nothing.
    AnyRefusalProves,
    /// A prompt that was not found is taken for one that the server does not have.
    NotFoundProves,
    /// An answer that proves nothing is taken for acceptance.
    AnyAnswerAccepts,
}

impl Broken {
    /// All of them.
    pub(crate) const ALL: [Self; 27] = [
        Self::ReceiptApart,
        Self::NoFingerprint,
        Self::LookupBeforeAuthorization,
        Self::ReplayInserts,
        Self::ReplyBeforeCommit,
        Self::CrashForgets,
        Self::RecoveryLosesPrompt,
        Self::LeaseOutlivesLink,
        Self::TwoLeases,
        Self::SaveWithoutLease,
        Self::OperationIgnored,
        Self::OldLinkGoesOn,
        Self::EventsBeforeCommit,
        Self::ResumeSkips,
        Self::NewIdOnRetry,
        Self::OtherTextOnRetry,
        Self::TwoOpenSends,
        Self::OldLifeProves,
        Self::OldStatusWins,
        Self::OldRenewalAdopted,
        Self::SendsUnwritten,
        Self::HeirResends,
        Self::RowsStay,
        Self::RetriesUnannounced,
        Self::AnyRefusalProves,
        Self::NotFoundProves,
        Self::AnyAnswerAccepts,
    ];
}
