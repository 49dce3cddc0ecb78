// Package work decides what becomes of a piece of work whose tasks come and go. Task sets, jobs and `tender run` are its
// faces: for a program, for a job file, for a person at a terminal. What they decide alike is decided here, once:
//
//   - what the end of a task means for the work ([Judge]),
//   - what follows for the next attempt ([Tally]), and how long that waits ([Backoff]),
//   - for how long a task has to run well before that proves something ([TimeToFail]),
//   - which attempts take too long, and how many of them get a copy ([Pace]),
//   - what the attempts of a piece do, which of two goes on when one that was taken for lost comes back, and which agent
//     the next one avoids ([Piece]),
//   - how the items of a service stand in a change, and which one is next ([Survey]),
//   - what waits, as the demand that masters are told ([Wants]),
//   - how an end is told to people ([Words]).
//
// Nothing here has a clock, a goroutine or randomness of its own: the same events give the same decisions.
package work
