package secrets

// Folder is the folder in a task's sandbox that holds its secrets. A file system in memory is mounted there.
const Folder = "secrets"

// source is the source that these mounts name to the kernel, by which they are recognized.
const source = "tender-secrets"
