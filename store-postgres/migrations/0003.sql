-- Objects: bytes of any length under a key.

-- An object. It has no key while it is uploaded; then nobody else finds it.
CREATE TABLE $schema$.object (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    bytes bigint NOT NULL,
    -- When the upload was finished. Before that: when it began.
    created_at bigint NOT NULL
);

CREATE UNIQUE INDEX object_key ON $schema$.object (tenant, key);

-- The bytes of an object, in chunks of 1 MiB; the last one may be shorter.
CREATE TABLE $schema$.object_chunk (
    object bigint NOT NULL,
    number bigint NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (object, number)
);

-- Images and archives are compressed already.
ALTER TABLE $schema$.object_chunk ALTER COLUMN bytes SET STORAGE EXTERNAL;
