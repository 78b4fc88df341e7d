package output

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress shows what a command is doing. On a terminal, that is one line, which is replaced by the
// next step and shows how long the step has taken. It is safe for concurrent use.
type Progress struct {
	// Lines prints each step as a line of its own where there is no terminal, for logs. By default,
	// nothing is printed there.
	Lines bool

	to    io.Writer
	width int // of the terminal; 0: none

	mu    sync.Mutex
	step  string // "" if nothing is being done
	began time.Time
	drawn time.Time // when the line was last written
	shown bool      // the terminal has the line
	stop  chan struct{}
}

// NewProgress returns a Progress that writes to the standard error output of a command. The caller
// calls Done before it prints a result.
func NewProgress(errOut io.Writer) *Progress {
	return &Progress{to: errOut, width: TerminalWidth(errOut)}
}

// TerminalWidth returns the width of a terminal, or 0 if the writer is not a terminal that can
// replace lines.
func TerminalWidth(w io.Writer) int {
	f, ok := Raw(w).(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Step shows text as the current step of the command.
func (p *Progress) Step(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step, p.began = fmt.Sprintf(format, args...), time.Now()
	if p.width == 0 {
		if p.Lines {
			fmt.Fprintln(p.to, p.step)
		}
		return
	}
	p.draw()
	if p.stop == nil {
		p.stop = make(chan struct{})
		go p.redraw(p.stop)
	}
}

// Update changes the text of the step, for example to the number of files that are done. It writes
// to the terminal at most ten times a second, so it can be called in a loop. Without a terminal, it
// writes nothing.
func (p *Progress) Update(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width == 0 || p.stop == nil {
		return
	}
	p.step = fmt.Sprintf(format, args...)
	if time.Since(p.drawn) >= 100*time.Millisecond {
		p.draw()
	}
}

// redraw updates the time of the step.
func (p *Progress) redraw(stop chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		p.mu.Lock()
		if p.stop == stop {
			p.draw()
		}
		p.mu.Unlock()
	}
}

// draw writes the line. The caller holds the lock.
func (p *Progress) draw() {
	line, _, _ := strings.Cut(p.step, "\n")
	if took := time.Since(p.began).Truncate(time.Second); took > 0 {
		line += " (" + took.String() + ")"
	}
	// a line as wide as the terminal would wrap, and could not be replaced
	if runes := []rune(line); len(runes) >= p.width {
		line = string(runes[:p.width-1])
	}
	fmt.Fprintf(p.to, "\r\x1b[K%s", line)
	p.shown, p.drawn = true, time.Now()
}

// clear removes the line. The caller holds the lock.
func (p *Progress) clear() {
	if p.shown {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.shown = false
	}
}

// Done removes the line. Another Step may follow.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.step = ""
	if p.stop != nil {
		close(p.stop)
		p.stop = nil
	}
}

// Write writes other messages to the same output, above the line.
func (p *Progress) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	return p.to.Write(data)
}

// Above returns a writer for other output of the command, which may go to the same terminal. Lines
// that are written to it appear above the progress line. Without a terminal, Above returns w.
func (p *Progress) Above(w io.Writer) io.Writer {
	if p.width == 0 {
		return w
	}
	return above{p, w}
}

type above struct {
	progress *Progress
	to       io.Writer
}

func (a above) Write(data []byte) (int, error) {
	p := a.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	n, err := a.to.Write(data)
	if p.stop != nil && len(data) > 0 && data[len(data)-1] == '\n' {
		p.draw()
	}
	return n, err
}
