// Package agent runs an operator as a separate process in virtual time, and connects it to a
// control plane in this process.
//
//	err := agent.Program{Dir: "./cmd"}.Build(ctx, cache, "operator")
//	pool := agent.NewPool(agent.Config{Path: "operator"}, 2)
//	process, err := pool.Get()
//	link := agent.NewLink(process, 1, requests, documents) // in a bubble
//	at, err := link.Exchange(floor, until, ownLeases)
//
// The operator is built alone, with its own dependencies in its own versions, and with package
// inside, which imports only the standard library. An overlay of the go command renames the
// operator's main function, which runs in a testing/synctest bubble, and replaces calls that open
// ports. So Kelson's source is not needed, and any version of Kubernetes' libraries works.
// A process that is killed is a process of the operating system: its memory is lost, and os.Exit
// ends it.
//
// # Protocol
//
// K is this process, and O the operator's process. Both run in bubbles, whose clocks begin at the
// same time. They exchange frames (see inside.Frame) over two pipes, and never run at the same
// time: one waits in a system call, in which the time of its bubble stands still.
//
//  1. K starts O. O initializes its packages, and waits for its first batch. A [Pool] does this in
//     advance.
//  2. When K is idle (all goroutines of its bubble are blocked), it sends a batch: the frames that
//     its goroutines have queued, and Run with three times: now, floor, until.
//  3. O lets its time pass until now, takes the frames, and, in the first batch, calls main. It
//     waits until it is idle. It then lets time pass until floor, and further until a frame is
//     queued, but not past until. It sends a batch: the queued frames, and Idle with its time.
//  4. K lets its time pass until the time of Idle, takes the frames, and continues with step 2.
//
// A Call is the exception: O sends it in the middle of step 3 and waits for the response in real
// time, and K answers at once. Documents of the API are read in this way, because clients hold
// locks meanwhile.
//
// Renewals of Leases are another: O answers them itself while Run says that no other client uses
// its Leases. A leader renews its Lease every two seconds, and runs last for hours.
//
// # Time
//
// These invariants hold:
//
//   - O's clock is never ahead of K's next timer: until is at most the time of that timer, which
//     [Clock] finds. So what K does at that time cannot come too late for O.
//   - K's clock is never ahead of O's: K passes time only in step 4, until O's time, or when there
//     is no process. So what O does cannot come too late for K. If a goroutine of K lets time pass
//     in another way, O follows at the next now, and its frames arrive late, as over a slow
//     network.
//   - A frame of K reaches O at the time at which it was queued. A frame of O reaches K at the end
//     of its batch: at the time at which it was queued, or at floor. The explorer sets floor to
//     the time that a message takes, so that a request and the events that it causes need one
//     batch.
//   - O decides by the counters of Go's scheduler whether it is idle, with one processor and
//     without preemption. So the order of its goroutines does not depend on the machine.
//
// Time can't pass while a goroutine of the bubble waits for a sync.Mutex. So the overlay replaces
// the locks of the operator's module, and of the packages that hold one while they wait for the
// control plane, by inside.Mutex, whose waiting goroutines sleep.
//
// A process whose time can't pass, because a goroutine waits for something outside of its bubble,
// ends with inside.StuckCode and the stacks of such goroutines. K ends a process that neither runs
// nor answers, or that computes for minutes without a pause.
package agent
