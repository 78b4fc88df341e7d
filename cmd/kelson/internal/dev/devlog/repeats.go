package devlog

import (
	"fmt"
	"regexp"
	"time"
)

// Of entries that repeat, the log has the first mostEqual of each window. A hot loop of an operator
// would otherwise write thousands of lines in a second.
const (
	mostEqual = 20
	window    = 10 * time.Second
)

// repeats counts equal entries about a subject in a window.
type repeats struct {
	count   int // of entries in the window
	subject string
	last    string
}

// numbers are what differs in entries that repeat, such as durations, times and generations.
var numbers = regexp.MustCompile(`[0-9]+(\.[0-9]+)?(ns|µs|ms|s|m|h)?`)

// fold reports whether an entry repeats earlier ones too often to be written. The number of such
// entries is logged when their window ends. The caller holds l.mu.
func (l *Log) fold(subject, text string) bool {
	key := subject + "\x00" + numbers.ReplaceAllString(text, "0")
	r := l.equal[key]
	if r == nil {
		r = &repeats{subject: subject}
		l.equal[key] = r
		if len(l.equal) == 1 {
			time.AfterFunc(window, l.endWindow)
		}
	}
	r.count++
	r.last = text
	return r.count > mostEqual
}

// endWindow logs the numbers of entries that were not written, and begins a new window.
func (l *Log) endWindow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.equal {
		if more := r.count - mostEqual; more > 0 {
			l.write(r.subject, fmt.Sprintf("… and %d more like the last: %s", more, r.last))
		}
	}
	clear(l.equal)
}
