package explore

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"kelson.dev/lab/explore"
)

// mostShares bounds the number of processes of an exploration by default. Each needs about 250 MB.
const mostShares = 8

// endOfShare is how long a process may take to end when the exploration has ended.
const endOfShare = 10 * time.Second

// shares returns the number of processes that explore an operator in virtual time.
func (o options) shares() int {
	switch {
	case o.plan != "":
		return 1
	case o.parallel > 0:
		return o.parallel
	}
	return min(runtime.GOMAXPROCS(0), mostShares)
}

// shareRequest describes a share of an exploration, on the standard input of its process.
type shareRequest struct {
	Number            int
	Folder            string
	Program, Former   *explore.Binary
	FormerDefinitions []string
	Others            []explore.Other
	Options           explore.Options
}

// division starts the processes of an exploration.
type division struct {
	request shareRequest
	said    *warnings
}

func newDivision(folder string, s *explore.Scenario, o options, said *warnings) *division {
	return &division{shareRequest{Folder: folder, Program: s.Program, Former: s.FormerProgram,
		FormerDefinitions: s.FormerDefinitions, Others: s.Others, Options: o.exploration()}, said}
}

// start starts a process.
func (d *division) start(number int) (share explore.Share, err error) {
	self, err := os.Executable()
	if err != nil {
		return explore.Share{}, err
	}
	cmd := exec.Command(self, "explore", "--share")
	said := &lines{to: d.said}
	cmd.Stderr = said
	in, err := cmd.StdinPipe()
	if err != nil {
		return explore.Share{}, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return explore.Share{}, err
	}
	if err := cmd.Start(); err != nil {
		return explore.Share{}, err
	}
	wait := func() error {
		// An error of Kill means that the process has ended.
		late := time.AfterFunc(endOfShare, func() { _ = cmd.Process.Kill() })
		defer late.Stop()
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%w\n%s", err, said.end())
		}
		return nil
	}
	request := d.request
	request.Number = number
	if err := json.NewEncoder(in).Encode(request); err != nil {
		in.Close()
		return explore.Share{}, fmt.Errorf("start a process of the exploration: %w", wait())
	}
	return explore.Share{In: in, Out: out, Wait: wait}, nil
}

// exploreShare explores the share that the first line of in describes.
func exploreShare(ctx context.Context, in io.Reader, out, errOut io.Writer) error {
	slog.SetDefault(slog.New(&warnings{to: errOut}))
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // as in exploreProcess
	decoder := json.NewDecoder(in)
	var r shareRequest
	if err := decoder.Decode(&r); err != nil {
		return fmt.Errorf("read the share of an exploration from the standard input: %w", err)
	}
	s, err := explore.Project(r.Folder, nil)
	if err != nil {
		return err
	}
	s.Program, s.FormerProgram, s.FormerDefinitions, s.Others = r.Program, r.Former, r.FormerDefinitions, r.Others
	explore.DriveShare(ctx, s, r.Options, r.Number, io.MultiReader(decoder.Buffered(), in), out)
	return nil
}

// lines passes on the lines that a process writes, each once for all processes, which have the same
// warnings. It keeps the last ones.
type lines struct {
	to   *warnings
	part []byte // the beginning of a line
	last []string
}

// Write implements io.Writer.
func (l *lines) Write(data []byte) (int, error) {
	l.part = append(l.part, data...)
	for {
		at := bytes.IndexByte(l.part, '\n')
		if at < 0 {
			return len(data), nil
		}
		line := string(l.part[:at])
		l.part = l.part[at+1:]
		if err := l.to.line(line); err != nil {
			return 0, err
		}
		const kept = 40
		if l.last = append(l.last, line); len(l.last) > kept {
			l.last = slices.Delete(l.last, 0, 1)
		}
	}
}

// end returns the last lines.
func (l *lines) end() string { return strings.Join(l.last, "\n") }
