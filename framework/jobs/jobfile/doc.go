// Package jobfile reads jobs as people write them, strictly: an unknown field or a value of a wrong kind is a problem,
// reported with its place and what would be right. It takes a tree, as readers of JSON and TOML make one; TOML itself
// is read by the command line. It also writes the JSON Schema that editors use, from the same types.
package jobfile
