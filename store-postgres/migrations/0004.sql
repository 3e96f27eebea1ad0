-- The write buffer in front of the store. There is one row, or none if no buffer was ever attached.
CREATE TABLE $schema$.write_buffer (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- The id of the buffer; null if none is attached.
    buffer text,
    -- The position up to which its stream is applied, or in quarantine.
    position bigint NOT NULL,
    -- How often its quarantine has changed.
    quarantine_revision bigint NOT NULL DEFAULT 0
);

-- The deltas that could not be applied.
CREATE TABLE $schema$.quarantined_delta (
    -- The sequence number in the stream.
    sequence bigint PRIMARY KEY,
    tenant text NOT NULL,
    reason text NOT NULL,
    since bigint NOT NULL,
    -- The message of the stream.
    message text NOT NULL
);
