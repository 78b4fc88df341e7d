// Package plan serves the view Plan: what an operator would do, according to kelson plan.
package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/yaml"

	"kelson.dev/console/internal/web"
	"kelson.dev/lab/history"
	"kelson.dev/lab/planned"
)

// Runner makes a plan and returns it as kelson plan prints it in JSON. With lastCommit, the plan is
// a comparison with the operator of the last commit. It returns when ctx ends.
type Runner func(ctx context.Context, lastCommit bool) ([]byte, error)

// Server serves the requests of the view. Use New.
type Server struct {
	file    string
	run     Runner
	ctx     context.Context // of runs
	changed *web.Signal

	mu      sync.Mutex
	made    document
	running time.Time // when the current run began; zero: none
	failure error     // of the last run
	ran     bool      // made comes from a run, and not from the file
}

// document is a plan with the time at which it was made.
type document struct {
	plan *planned.Plan
	time time.Time
	size int64 // of the file
}

// New returns a server of the plan in a file, which may change, and of the plans that run makes.
// The name of the file may be empty, and run may be nil. ctx ends the runs.
func New(ctx context.Context, file string, run Runner) *Server {
	return &Server{file: file, run: run, ctx: ctx, changed: web.NewSignal()}
}

// Routes registers the handlers.
func (s *Server) Routes(mux *http.ServeMux) {
	mux.HandleFunc("GET /api/plan", s.plan)
	mux.Handle("POST /api/plan/run", web.Func(s.start))
	mux.HandleFunc("GET /api/plan/export", s.export)
}

// State is the content of the page.
type State struct {
	// File is the name of the plan's file. Runnable means that the console can make plans.
	File     string `json:"file,omitempty"`
	Runnable bool   `json:"runnable"`
	// Running is the start time of the current run; Failure is the error of the last run.
	Running *time.Time `json:"running,omitempty"`
	Failure *web.Error `json:"failure,omitempty"`
	// Plan is nil if no plan exists yet. Time is the time at which the plan was made or written.
	Plan    *planned.Plan `json:"plan,omitempty"`
	Time    *time.Time    `json:"time,omitempty"`
	Summary string        `json:"summary,omitempty"`
	Empty   bool          `json:"empty,omitempty"` // the operator would do nothing
	More    int           `json:"more,omitempty"`  // number of steps that are not sent
}

const (
	// pace is the interval between two checks of the file.
	pace = time.Second
	// maxSteps bounds the steps on the page. The exported plan has all.
	maxSteps = 2000
)

func (s *Server) plan(w http.ResponseWriter, r *http.Request) {
	web.States(r.Context(), w, s.wait, 100*time.Millisecond, func(context.Context) (any, error) {
		made, err := s.read()
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		state := &State{File: s.file, Runnable: s.run != nil}
		if !s.running.IsZero() {
			state.Running = new(s.running)
		}
		if s.failure != nil {
			state.Failure = web.AsError(s.failure)
		}
		if made.plan != nil {
			shown := *made.plan
			state.Plan, state.Time, state.Summary, state.Empty = &shown, &made.time, shown.Summary(), shown.Empty()
			if len(shown.Steps) > maxSteps {
				state.More = len(shown.Steps) - maxSteps
				shown.Steps = shown.Steps[:maxSteps]
			}
		}
		return state, nil
	})
}

// wait returns a channel that is closed when a run begins or ends, or when it is time to check the
// file again.
func (s *Server) wait() <-chan struct{} {
	changed := s.changed.Wait()
	if s.file == "" {
		return changed
	}
	either := make(chan struct{})
	go func() {
		defer close(either)
		select {
		case <-changed:
		case <-time.After(pace):
		}
	}()
	return either
}

// read returns the current plan: that of the last run, or of the file.
func (s *Server) read() (document, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ran || s.file == "" {
		return s.made, nil
	}
	info, err := os.Stat(s.file)
	if err != nil {
		return document{}, err
	}
	if s.made.plan != nil && info.Size() == s.made.size && info.ModTime().Equal(s.made.time) {
		return s.made, nil
	}
	data, err := os.ReadFile(s.file)
	if err != nil {
		return document{}, err
	}
	p, err := Parse(data)
	if err != nil {
		return document{}, web.Errorf(http.StatusUnprocessableEntity, "read plan %s: %v", s.file, err)
	}
	s.made = document{p, info.ModTime(), info.Size()}
	return s.made, nil
}

// Parse reads a plan that kelson plan has printed in JSON or YAML.
func Parse(data []byte) (*planned.Plan, error) {
	p := &planned.Plan{}
	if err := yaml.Unmarshal(data, p); err != nil {
		return nil, err
	}
	if p.Steps == nil && p.Compared == "" && p.Cluster == "" {
		return nil, errNoPlan
	}
	hide(p)
	return p, nil
}

// errNoPlan is the error for documents that do not look like a plan.
var errNoPlan = web.Errorf(http.StatusUnprocessableEntity,
	"it has neither steps nor a cluster: kelson plan -o json prints plans")

// hidden replaces values of Secrets.
const hidden = "(hidden)"

// hide hides the values of Secrets. kelson plan has already hidden them, and their copies in other
// objects; hide is for files that other programs have written.
func hide(p *planned.Plan) {
	for i := range p.Installed {
		hideIn(p.Installed[i].Object, p.Installed[i].Changes)
	}
	for _, step := range p.Steps {
		for i := range step.Writes {
			hideIn(step.Writes[i].Object, step.Writes[i].Changes)
		}
	}
	for i := range p.Differences {
		hideIn(p.Differences[i].Object, p.Differences[i].Changes)
	}
}

func hideIn(object planned.Ref, changes []history.Change) {
	if object.Group != "" || object.Kind != "Secret" {
		return
	}
	for i := range changes {
		if !secretField(changes[i].Path) {
			continue
		}
		for _, value := range []*string{&changes[i].From, &changes[i].To} {
			if *value != "" {
				*value = hidden
			}
		}
	}
}

// secretField reports whether a path of a Secret can have its values: data, stringData, or the
// annotation in which kubectl keeps the whole object.
func secretField(path string) bool {
	for _, field := range []string{".data", ".stringData", ".metadata.annotations"} {
		if rest, ok := bytes.CutPrefix([]byte(path), []byte(field)); ok &&
			(len(rest) == 0 || slices.Contains([]byte(".["), rest[0])) {
			return true
		}
	}
	return path == ""
}

// start begins to make a plan. It responds immediately.
func (s *Server) start(r *http.Request) (any, error) {
	if s.run == nil {
		return nil, web.Errorf(http.StatusNotFound,
			"this console can't make plans: run kelson plan -o json and start it with --plan FILE")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.running.IsZero() {
		return nil, web.Errorf(http.StatusConflict, "a plan is being made")
	}
	s.running, s.failure = time.Now().UTC(), nil
	go s.make(r.URL.Query().Get("against") == "HEAD")
	s.changed.Notify()
	return map[string]any{}, nil
}

func (s *Server) make(lastCommit bool) {
	data, err := s.run(s.ctx, lastCommit)
	var p *planned.Plan
	if err == nil {
		p, err = Parse(data)
	}
	s.mu.Lock()
	if s.running, s.failure = (time.Time{}), err; err == nil {
		s.made, s.ran = document{plan: p, time: time.Now().UTC()}, true
	}
	s.mu.Unlock()
	s.changed.Notify()
}

// export sends the whole plan as a file: format=json or format=markdown.
func (s *Server) export(w http.ResponseWriter, r *http.Request) {
	made, err := s.read()
	if err == nil && made.plan == nil {
		err = web.Errorf(http.StatusNotFound, "there is no plan")
	}
	if err != nil {
		web.Fail(w, err)
		return
	}
	var body bytes.Buffer
	name, media := "plan.json", "application/json"
	switch format := r.URL.Query().Get("format"); format {
	case "json":
		err = encode(&body, made.plan)
	case "markdown":
		name, media = "plan.md", "text/markdown; charset=utf-8"
		err = made.plan.Markdown(&body)
	default:
		err = web.Errorf(http.StatusBadRequest, "unknown format %q: want json or markdown", format)
	}
	if err != nil {
		web.Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	_, _ = w.Write(body.Bytes()) // an error means that the client has closed the connection
}

// encode writes a plan in the format of kelson plan.
func encode(out *bytes.Buffer, p *planned.Plan) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(p)
}
