package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"kelson.dev/lab/history"

	// its init lets Kubernetes' libraries report errors in bubbles without a delay
	_ "kelson.dev/lab/testenv"
)

// The environment variables of Drive: the Order in JSON, and the file descriptor for the Message.
const (
	OrderVariable  = "KELSON_REPLAY"
	ReportVariable = "KELSON_REPLAY_REPORT"
)

// Order describes the replay that Drive runs.
type Order struct {
	History  string // file or directory
	Managers []string
	From, To time.Time
	Quiet    time.Duration
	// Speed is the maximum ratio of virtual time to real time; 0 means as fast as possible.
	Speed float64
}

// Message is a message of Drive, in JSON, to the program that started it.
type Message struct {
	Error  string
	Result *Result
}

// Drive replays a history for another program: kelson replay runs it in a test program that it
// generates. It fails the test if there is an error.
func Drive(t *testing.T, operator func(context.Context, *rest.Config) error) {
	out := io.Writer(os.Stdout)
	if fd, err := strconv.Atoi(os.Getenv(ReportVariable)); err == nil {
		out = os.NewFile(uintptr(fd), "report")
	}
	result, err := drive(t, operator)
	m := Message{Result: result}
	if err != nil {
		m = Message{Error: err.Error()}
	}
	if sendErr := json.NewEncoder(out).Encode(m); sendErr != nil || err != nil {
		t.Fatal(errors.Join(err, sendErr))
	}
}

func drive(t *testing.T, operator func(context.Context, *rest.Config) error) (result *Result, err error) {
	var order Order
	if err := json.Unmarshal([]byte(os.Getenv(OrderVariable)), &order); err != nil {
		return nil, fmt.Errorf("%s: %w", OrderVariable, err)
	}
	h, err := history.Open(order.History)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	cfg := Config{History: h, Operator: operator, Managers: order.Managers, From: order.From, To: order.To, Quiet: order.Quiet}
	if order.Speed > 0 {
		pace, stop := newPace(order.Speed)
		defer stop()
		cfg.Pace = pace
	}
	synctest.Test(t, func(t *testing.T) { result, err = Run(context.Background(), cfg) })
	return result, err
}

// newPace returns a Config.Pace for a speed. Real time passes in a goroutine outside of the bubble:
// virtual time stands still while the bubble waits for it.
func newPace(speed float64) (pace func(time.Duration), stop func()) {
	request, done := make(chan time.Duration), make(chan struct{})
	go func() {
		for d := range request {
			time.Sleep(time.Duration(float64(d) / speed))
			done <- struct{}{}
		}
	}()
	pace = func(d time.Duration) {
		request <- d
		<-done
	}
	return pace, func() { close(request) }
}
