package rights

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"kelson.dev/lab/rights"
)

// log reads an audit log that grows, for one user. One goroutine may use it.
type log struct {
	name   string
	user   string
	offset int64 // of the first line that was not read

	// requests are the requests of the user, each with the names of its objects; "" means no name.
	requests map[rights.Request]map[string]bool
	groups   map[string]bool // of the user
	events   int
	users    map[string]int
}

func newLog(name, user string) *log {
	return &log{name: name, user: user, requests: map[rights.Request]map[string]bool{}, groups: map[string]bool{},
		users: map[string]int{}}
}

// read reads the lines that were added. If the file became shorter, it was replaced, and is read
// from its beginning.
func (l *log) read() error {
	f, err := os.Open(l.name)
	if errors.Is(err, os.ErrNotExist) {
		return nil // the server has not started yet
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < l.offset {
		*l = *newLog(l.name, l.user)
	}
	if info.Size() == l.offset {
		return nil
	}
	if _, err := f.Seek(l.offset, io.SeekStart); err != nil {
		return err
	}
	lines := &completeLines{in: bufio.NewReader(f), each: l.note}
	a, err := rights.FromAudit(lines, rights.Filter{User: l.user})
	if err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	l.offset += lines.read
	l.events += a.Events
	for user, n := range a.Users {
		l.users[user] += n
	}
	return nil
}

// note records the names and groups of a line, if it is about the user. It ignores malformed lines.
func (l *log) note(line []byte) {
	if l.user == "" || plain(l.user) && !bytes.Contains(line, []byte(`"`+l.user+`"`)) {
		return
	}
	a, err := rights.FromAudit(bytes.NewReader(line), rights.Filter{User: l.user})
	if err != nil || a.Events == 0 {
		return
	}
	type user struct {
		Username string
		Groups   []string
	}
	var e struct {
		User             user
		ImpersonatedUser *user
		ObjectRef        *struct{ Name string }
	}
	if json.Unmarshal(line, &e) != nil {
		return
	}
	if e.ImpersonatedUser != nil && e.User.Username != l.user {
		e.User = *e.ImpersonatedUser
	}
	for _, group := range e.User.Groups {
		l.groups[group] = true
	}
	for _, r := range a.Requests {
		if l.requests[r] == nil {
			l.requests[r] = map[string]bool{}
		}
		name := ""
		if e.ObjectRef != nil && r.Verb != "impersonate" {
			name = e.ObjectRef.Name
		}
		l.requests[r][name] = true
	}
}

// plain reports whether all JSON encoders write a text in the same way, without escapes.
func plain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&/`, r)
	})
}

// sorted returns the requests by resource and verb.
func (l *log) sorted() []rights.Request {
	return slices.SortedFunc(maps.Keys(l.requests), func(a, b rights.Request) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Resource, b.Resource),
			strings.Compare(a.URL, b.URL),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Verb, b.Verb))
	})
}

// completeLines reads up to the end of the last complete line, because another process may be
// writing the next one.
type completeLines struct {
	in   *bufio.Reader
	rest []byte
	read int64 // the length of the lines so far
	each func(line []byte)
}

func (c *completeLines) Read(p []byte) (int, error) {
	if len(c.rest) == 0 {
		line, err := c.in.ReadBytes('\n')
		if err != nil {
			return 0, err // the incomplete line is read again later
		}
		c.rest = line
		c.read += int64(len(line))
		c.each(line)
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}
