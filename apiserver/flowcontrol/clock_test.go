package flowcontrol_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"kelson.dev/apiserver/flowcontrol"
	"kelson.dev/apiserver/internal/clocks"
	"kelson.dev/internal/require"
)

// jumps are changes of the machine's clock.
var jumps = []time.Duration{0, -time.Hour, time.Hour, -10 * 365 * 24 * time.Hour, 10 * 365 * 24 * time.Hour}

// A request waits for at most a quarter of its time, even if the clock is set after its arrival.
// Times in a synctest bubble have no monotonic reading, so this test uses real time.
func TestWaitsWhenTheClockIsSet(t *testing.T) {
	st := newStore(t)
	defer st.Close()
	c := flowcontrol.New(flowcontrol.Config{Store: st, Seats: 60})
	enough := make(chan struct{})
	var holders sync.WaitGroup
	defer holders.Wait()
	defer close(enough)
	begin := func(user string, arrived time.Time, timeout time.Duration) (waited time.Duration,
		ticket *flowcontrol.Ticket, err error) {
		most, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ctx, cancel := context.WithDeadline(request.WithReceivedTimestamp(most, arrived), arrived.Add(timeout))
		defer cancel()
		ticket = new(flowcontrol.Ticket)
		req, info, u := ask(ctx, user, "get")
		start := time.Now()
		err = c.Begin(ticket, req, info, u)
		return time.Since(start), ticket, err
	}
	const timeout = 400 * time.Millisecond
	for i := 0; ; i++ { // until all seats are taken
		_, ticket, err := begin(fmt.Sprint("holder-", i), time.Now(), timeout)
		if err != nil {
			break
		}
		holders.Go(func() {
			<-enough
			ticket.Release()
		})
	}
	for _, jump := range jumps {
		waited, _, err := begin("ann", clocks.Set(time.Now(), jump), timeout)
		if reason(err) != "time-out" || waited < timeout/4-10*time.Millisecond || waited > 20*time.Second {
			t.Errorf("clock set by %s: rejected after %s: %v", -jump, waited, err)
		}
	}
}

// What a level borrows depends on the time since its last demand, not on the clock.
func TestBorrowingWhenTheClockIsSet(t *testing.T) {
	var want float64
	for _, jump := range jumps {
		st := newStore(t)
		c := flowcontrol.New(flowcontrol.Config{Store: st, Seats: 600})
		var tickets []*flowcontrol.Ticket
		// The first request makes the controller read the configuration. All of them together make
		// the level busy.
		for i := range 20 {
			if i == 1 {
				c.SetClock(jump)
			}
			ticket, err := begin(t, c, fmt.Sprint("user-", i))
			require.NoError(t, err)
			tickets = append(tickets, ticket)
		}
		got := seatsOf(t, c, "current_limit_seats", "global-default")
		if jump == 0 {
			want = got
		}
		if got != want || got < 20 {
			t.Errorf("clock set by %s: %v seats, without %v", jump, got, want)
		}
		for _, ticket := range tickets {
			ticket.Release()
		}
		st.Close()
	}
}
