-- The write buffer in front of the store. There is one row, or none if no buffer was ever attached.
CREATE TABLE $schema$.write_buffer (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- The id of the buffer; null if none is attached.
    buffer text,
    -- The position up to which its stream is applied.
    position bigint NOT NULL
);
