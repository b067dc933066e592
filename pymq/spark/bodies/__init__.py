"""Bodies as columns of types, by a schema. Knows no broker and no file; asks a registry where one is named."""
