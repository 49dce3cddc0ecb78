package secrets

// Folder is the folder of a task's sandbox that holds its secrets. It is mounted there, and in memory.
const Folder = "secrets"

// source is by what the kernel calls these mounts, so that they are known again.
const source = "tender-secrets"
