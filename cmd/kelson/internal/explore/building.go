package explore

import (
	"fmt"
	"io"
	"sync"
	"time"

	"kelson.dev/cmd/kelson/internal/output"
)

// building shows how far the build of an operator is: on a terminal in one line, and elsewhere as a
// line at the beginning, after each half minute, and at the end of a build that has taken a second.
type building struct {
	to       io.Writer
	progress *output.Progress // nil without a terminal
	began    time.Time
	stop     chan struct{}
	ended    chan struct{}

	mu       sync.Mutex
	packages int
	last     string // the path of the last package
}

// buildingLines is the time between two lines without a terminal.
const buildingLines = 30 * time.Second

func newBuilding(to io.Writer) *building {
	b := &building{to: to, began: time.Now(), stop: make(chan struct{}), ended: make(chan struct{})}
	if output.TerminalWidth(to) > 0 {
		b.progress = output.NewProgress(to)
		b.progress.Step("building the operator")
		close(b.ended)
		return b
	}
	fmt.Fprintln(to, "building the operator")
	go b.lines()
	return b
}

// lines prints a line after each half minute.
func (b *building) lines() {
	defer close(b.ended)
	tick := time.NewTicker(buildingLines)
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-tick.C:
			fmt.Fprintf(b.to, "building the operator: %s, %v\n", b.state(), time.Since(b.began).Round(time.Second))
		}
	}
}

func (b *building) state() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.packages == 0 {
		return "reading its packages, or linking"
	}
	return fmt.Sprintf("%d packages compiled, the last one %s", b.packages, b.last)
}

// compiling notes a package that is being compiled.
func (b *building) compiling(path string) {
	b.mu.Lock()
	b.packages++
	b.last = path
	b.mu.Unlock()
	if b.progress != nil {
		b.progress.Update("building the operator: %s", b.state())
	}
}

// done ends the progress with the error of the build.
func (b *building) done(err error) {
	close(b.stop)
	<-b.ended
	switch took := time.Since(b.began); {
	case b.progress != nil:
		b.progress.Done()
	case err == nil && took >= time.Second:
		fmt.Fprintf(b.to, "built the operator in %v\n", took.Round(100*time.Millisecond))
	}
}
