// Package jobcmd implements the commands about jobs: 'tender job ...' and 'tender jobs', which runs the job manager. It
// reads job files, and shows what the job service answers.
package jobcmd
