// Package replay runs an operator against a history, in virtual time, and shows where the results
// diverge from the history.
//
// A replay begins with the state of a moment. It repeats the writes of all other clients at the
// recorded times, on a control plane without controllers, because the writes of controllers are
// part of the history too. If definitions of resources were written before the operator's first
// recorded write, the operator starts after the last of them, so that it need not wait until its
// kinds exist. The replay does not repeat the operator's recorded writes, because the running
// operator makes its own. After each quiet period of the history, it compares the objects that the
// recorded operator or the running one wrote.
//
// The field managers of a version show which client wrote it. They do not show which client deleted
// an object: the deletion of an object that the operator created counts as the operator's, unless
// its owner was deleted before, or waits for this deletion.
package replay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/store"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/agent"
	"kelson.dev/lab/history"
	"kelson.dev/lab/past"
)

// Config configures a replay.
type Config struct {
	// History is the recorded history. Required.
	History *history.History
	// Operator runs the operator until ctx ends. Required, unless there is a Program.
	Operator func(ctx context.Context, config *rest.Config) error
	// Program is the process of an operator that waits for its first batch. Run kills it.
	Program *agent.Process
	// Managers are the field managers of the operator's writes in the history. Required; see
	// Managers.
	Managers []string
	// From and To are the bounds of the replay; zero means the beginning and the end of the
	// history.
	From, To time.Time
	// Quiet is the length of a quiet period of the history, after which objects are compared; 0
	// means a second. The recorded operator needed this time to react. In the replay, the reaction
	// takes no virtual time.
	Quiet time.Duration
	// Pace, if not nil, is called before virtual time passes, with the duration.
	Pace func(time.Duration)
}

// Result lists where an operator diverges from a history.
type Result struct {
	From        time.Time    `json:"from"`
	To          time.Time    `json:"to"`
	Inputs      int          `json:"inputs"`  // repeated writes of other clients
	Moments     int          `json:"moments"` // moments at which objects were compared
	Objects     int          `json:"objects"` // compared ones
	Divergences []Divergence `json:"divergences,omitempty"`
	Notes       []string     `json:"notes,omitempty"`
}

// Divergence is an object that differs from the recorded one.
type Divergence struct {
	Resource  string    `json:"resource"`
	Namespace string    `json:"namespace,omitempty"`
	Name      string    `json:"name"`
	Since     time.Time `json:"since"`
	// Until is the moment from which on the object equals the recorded one again, or nil.
	Until *time.Time `json:"until,omitempty"`
	// Only is "recorded" or "replayed" if the object exists in only one of both.
	Only string `json:"only,omitempty"`
	// Changes are the differences from the recorded object to the replayed one at the moment of
	// divergence.
	Changes []history.Change `json:"changes,omitempty"`
}

// Key returns the key of the object.
func (d Divergence) Key() history.Key {
	return history.Key{Resource: d.Resource, Namespace: d.Namespace, Name: d.Name}
}

const defaultQuiet = time.Second

// event is a version in the history.
type event struct {
	history.Version
	before uint64 // revision of the version before it
}

type replay struct {
	cfg    Config
	store  *store.Store
	result *Result

	mu      sync.Mutex
	touched map[history.Key]bool // by the operator, recorded or replayed

	link    *agent.Link            // nil without a Program, and before it begins
	runner  *agent.Runner          // the same
	uids    map[history.Key]string // of the newest objects that the recorded operator created
	open    map[history.Key]int    // index in result.Divergences
	skipped int
	failed  failedReads
}

// Run replays a history. It must be called in a testing/synctest bubble.
func Run(ctx context.Context, cfg Config) (_ *Result, err error) {
	if len(cfg.Managers) == 0 {
		return nil, errors.New("replay: the field managers of the operator are not known")
	}
	cfg.Quiet = cmp.Or(cfg.Quiet, defaultQuiet)
	r := &replay{cfg: cfg, touched: map[history.Key]bool{}, uids: map[history.Key]string{}, open: map[history.Key]int{}}
	if err := r.bounds(); err != nil {
		return nil, err
	}
	events := r.events()
	time.Sleep(time.Until(r.result.From)) // the operator's clock shows the times of the history
	plane, err := r.start(ctx)
	if err != nil {
		return nil, err
	}
	defer r.store.Close()
	defer plane.Stop()
	defined, err := r.definitions(events)
	if err != nil {
		return nil, err
	}
	operating, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	var operator sync.WaitGroup
	start := func() error {
		if cfg.Program != nil {
			return r.begin(plane)
		}
		operator.Go(func() { ended <- r.operate(operating, plane) })
		return nil
	}
	err = r.follow(ctx, events, defined, start, ended)
	stop()
	r.end()
	operator.Wait()
	if err != nil && errors.Is(err, errEnded) {
		return nil, err
	}
	r.result.Objects = len(r.touched)
	if r.skipped > 0 {
		r.result.Notes = append(r.result.Notes,
			fmt.Sprintf("%d writes of others had no object to change: the operator had not created it", r.skipped))
	}
	r.result.Notes = append(r.result.Notes, r.failed.notes()...)
	return r.result, err
}

// bounds sets the bounds of the replay.
func (r *replay) bounds() error {
	oldest, newest := r.cfg.History.Span()
	if _, began, complete := r.cfg.History.Start(); complete {
		oldest = began
	} else if !oldest.IsZero() {
		oldest = oldest.Add(recorderStarts)
	}
	from, to := r.cfg.From, r.cfg.To
	if from.IsZero() {
		from = oldest
	}
	if to.IsZero() || to.After(newest) {
		to = newest
	}
	switch {
	case newest.IsZero():
		return errors.New("the history is empty")
	case from.Before(oldest):
		return fmt.Errorf("the history begins later, at %s", oldest.UTC().Format(time.RFC3339Nano))
	case from.After(to):
		return fmt.Errorf("there is nothing to replay: the history ends at %s, before %s",
			newest.UTC().Format(time.RFC3339Nano), from.UTC().Format(time.RFC3339Nano))
	}
	r.result = &Result{From: from.UTC(), To: to.UTC()}
	return nil
}

// recorderStarts is the time that a recorder needs to list a cluster. Before that, the file does
// not have the whole state.
const recorderStarts = 2 * time.Second

// events returns the versions to replay, in the order of their revisions. Their times never
// decrease.
func (r *replay) events() (all []event) {
	h := r.cfg.History
	for _, resource := range h.Resources() {
		if ignored(resource.Name()) {
			continue
		}
		for _, key := range h.Keys(resource.Name()) {
			before := uint64(0)
			for v := range h.Versions(key) {
				if v.Time.After(r.result.From) && !v.Time.After(r.result.To) {
					all = append(all, event{v, before})
				}
				before = v.Revision
			}
		}
	}
	slices.SortFunc(all, func(a, b event) int { return cmp.Compare(a.Revision, b.Revision) })
	for i := 1; i < len(all); i++ {
		if all[i].Time.Before(all[i-1].Time) {
			all[i].Time = all[i-1].Time
		}
	}
	return all
}

// definitions returns the number of events until the last write of a definition before the
// operator's first write.
func (r *replay) definitions(events []event) (int, error) {
	defined := 0
	for i, e := range events {
		if e.Key.Resource == "customresourcedefinitions.apiextensions.k8s.io" {
			defined = i + 1
		}
		if w, err := r.read(e); err != nil || w.byOperator {
			return defined, err
		}
	}
	return 0, nil
}

// start starts a control plane with the state at the beginning.
func (r *replay) start(ctx context.Context) (*controlplane.ControlPlane, error) {
	at := r.cfg.History.AtTime(r.result.From)
	state, err := past.Read(at)
	if err != nil {
		return nil, err
	}
	r.result.Notes = state.Notes
	state.Records = slices.DeleteFunc(state.Records, func(rec store.Record) bool { return ignored(rec.Key.Resource) })
	revision, _ := at.Last()
	if r.store, err = store.Open(store.Config{Backend: state.Backend(revision)}); err != nil {
		return nil, fmt.Errorf("load the state at %s: %w", r.result.From.Format(time.RFC3339), err)
	}
	plane, err := controlplane.Start(ctx, controlplane.Config{Store: r.store,
		Controllers: controlplane.NoControllers{}})
	if err != nil {
		return nil, errors.Join(err, r.store.Close())
	}
	r.store.Gate(func(ctx context.Context, ops []store.Op) error {
		if ctx.Value(operatorKey{}) != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, op := range ops {
				if !op.Check && !ignored(op.Key.Resource) {
					r.touched[history.Key(op.Key)] = true
				}
			}
		}
		return nil
	})
	return plane, nil
}

// operatorKey is the context key of the operator's requests.
type operatorKey struct{}

// transport marks the operator's requests, and notes which reads fail.
type transport struct {
	inner  http.RoundTripper
	failed *failedReads
}

// Steady reports to the operator library that the end of a watch is always noticed.
func (t *transport) Steady() bool { return true }

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := t.inner.RoundTrip(r.WithContext(context.WithValue(r.Context(), operatorKey{}, true)))
	if err == nil {
		t.failed.note(r, resp)
	}
	return resp, err
}

// operate runs the operator. Its writes use the first of the recorded managers, unless the operator
// sets another one.
func (r *replay) operate(ctx context.Context, plane *controlplane.ControlPlane) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	config := plane.RESTConfig()
	config.Transport = &transport{config.Transport, &r.failed}
	config.UserAgent = r.cfg.Managers[0] + "/replay"
	return r.cfg.Operator(ctx, config)
}

// begin connects the Program to the control plane. Its process calls main when follow lets it run.
func (r *replay) begin(plane *controlplane.ControlPlane) (err error) {
	inner := plane.RESTConfig().Transport
	requests := asAgent{r.cfg.Managers[0] + "/replay", &transport{inner, &r.failed}}
	r.link = agent.NewLink(r.cfg.Program, 1, requests, inner)
	r.runner, err = agent.NewRunner(r.link)
	return err
}

// end ends the Program.
func (r *replay) end() {
	if r.runner != nil {
		r.runner.Stop()
	}
	if r.link != nil {
		r.link.Close()
	}
	if r.cfg.Program != nil {
		r.cfg.Program.Kill()
	}
}

// asAgent sends requests with a user agent, by which the server names the field manager of writes
// that name none.
type asAgent struct {
	name  string
	inner http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a asAgent) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("User-Agent", a.name)
	return a.inner.RoundTrip(r)
}

// programEnded returns the error of a Program whose link has failed.
func (r *replay) programEnded() error {
	err := r.cfg.Program.Ended()
	const most = 4000
	output := bytes.TrimSpace(r.cfg.Program.Output())
	return fmt.Errorf("%w: %w\n%s", errEnded, err, output[max(0, len(output)-most):])
}

var errEnded = errors.New("the operator ended")

// follow repeats the writes of other clients and compares objects. After the first events, it calls
// start to start the operator.
func (r *replay) follow(ctx context.Context, events []event, first int, start func() error, ended <-chan error) error {
	compare := func(at time.Time) error {
		if err := r.sleep(at.Add(r.cfg.Quiet)); err != nil {
			return err
		}
		select {
		case err := <-ended:
			if err == nil {
				return errEnded
			}
			return fmt.Errorf("%w: %w", errEnded, err)
		default:
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return r.compare(at)
	}
	if first == 0 {
		if err := start(); err != nil {
			return err
		}
	}
	if len(events) == 0 || events[0].Time.Sub(r.result.From) >= r.cfg.Quiet {
		if err := compare(r.result.From); err != nil {
			return err
		}
	}
	for i, e := range events {
		if err := r.sleep(e.Time); err != nil {
			return err
		}
		if err := r.input(ctx, e); err != nil {
			return fmt.Errorf("%v at revision %d: %w", e.Key, e.Revision, err)
		}
		if i+1 == first {
			synctest.Wait() // until the control plane serves the defined kinds
			if err := start(); err != nil {
				return err
			}
		}
		if i == len(events)-1 || events[i+1].Time.Sub(e.Time) >= r.cfg.Quiet {
			if err := compare(e.Time); err != nil {
				return err
			}
		}
	}
	return nil
}

// sleep lets time pass until a time, and then waits until the operator and the control plane are
// idle.
func (r *replay) sleep(until time.Time) error {
	d := max(0, time.Until(until))
	if d > 0 && r.cfg.Pace != nil {
		r.cfg.Pace(d)
	}
	if r.runner == nil {
		time.Sleep(d)
		synctest.Wait()
		return nil
	}
	if err := r.runner.Sleep(d); err != nil {
		return r.programEnded()
	}
	return nil
}

// version returns the content of an object at a revision; nil if it did not exist.
func (r *replay) version(key history.Key, revision uint64) (data []byte, decoded head, err error) {
	if revision > 0 {
		if _, data, _, err = r.cfg.History.At(revision).Get(key); err != nil {
			return nil, decoded, err
		}
	}
	decoded, err = headOf(data)
	return data, decoded, err
}

// input repeats a write unless the operator made it.
func (r *replay) input(ctx context.Context, e event) error {
	w, err := r.read(e)
	if err != nil {
		return err
	}
	if w.byOperator {
		r.mu.Lock()
		r.touched[e.Key] = true
		r.mu.Unlock()
		if w.before == nil {
			r.uids[e.Key] = w.uid
		}
		return nil
	}
	r.result.Inputs++
	op := store.Op{Key: store.Key(e.Key), Expect: store.AnyRevision}
	now := r.store.Snapshot().Get(op.Key)
	switch {
	case now == nil && (e.Deleted || w.before != nil):
		r.skipped++
		return nil
	case e.Deleted:
	case now == nil:
		op.Data = r.toReplay(w.after)
	default:
		if op.Data, err = transfer(r.toReplay(w.before), r.toReplay(w.after), now.Data, r.cfg.Managers); err != nil {
			return err
		}
	}
	_, err = r.store.Commit(ctx, op)
	return err
}

// write is an event with its contents.
type write struct {
	before, after []byte // nil if the object did not exist
	uid           string // of after
	byOperator    bool
}

// read returns the contents of an event.
func (r *replay) read(e event) (w write, err error) {
	var headBefore, headAfter head
	if w.before, headBefore, err = r.version(e.Key, e.before); err != nil {
		return w, err
	}
	if w.after, headAfter, err = r.version(e.Key, e.Revision); err != nil {
		return w, err
	}
	w.uid = headAfter.Metadata.UID
	w.byOperator, err = r.byOperator(e, headBefore, headAfter, w.before)
	return w, err
}

// byOperator reports whether the operator wrote a version.
func (r *replay) byOperator(e event, headBefore, headAfter head, before []byte) (bool, error) {
	isOperator := func(manager string) bool { return slices.Contains(r.cfg.Managers, program(manager)) }
	if !e.Deleted {
		return slices.ContainsFunc(writers(headBefore, headAfter), isOperator), nil
	}
	if headBefore.Metadata.DeletionTimestamp != "" {
		if !slices.ContainsFunc(headBefore.Metadata.Finalizers, func(f string) bool { return !isCollectors(f) }) {
			return false, nil
		}
		return slices.ContainsFunc(headBefore.Metadata.ManagedFields, func(f entry) bool {
			return isOperator(f.Manager) && f.finalizers()
		}), nil
	}
	if created, err := r.created(e.Key, e.before, isOperator); err != nil || !created {
		return false, err
	}
	var object struct {
		Metadata struct {
			OwnerReferences []struct {
				UID string `json:"uid"`
			} `json:"ownerReferences"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(before, &object); err != nil {
		return false, err
	}
	for _, owner := range object.Metadata.OwnerReferences {
		exists, err := r.existed(owner.UID, e.Revision)
		if err != nil || exists {
			return err == nil, err
		}
	}
	return len(object.Metadata.OwnerReferences) == 0, nil
}

// created reports whether the operator created an object that existed at a revision. It assumes
// this if no other manager owns fields of the oldest known version, except in the status.
func (r *replay) created(key history.Key, revision uint64, isOperator func(manager string) bool) (bool, error) {
	first := uint64(0)
	for v := range r.cfg.History.Versions(key) {
		switch {
		case v.Revision > revision:
		case v.Deleted:
			first = 0
		case first == 0:
			first = v.Revision
		}
	}
	_, decoded, err := r.version(key, first)
	return err == nil && !slices.ContainsFunc(decoded.Metadata.ManagedFields, func(f entry) bool {
		return f.Subresource == "" && !isOperator(f.Manager)
	}), err
}

// existed reports whether an object with a UID existed in the history at a revision, and did not
// wait for the garbage collector to delete its dependents.
func (r *replay) existed(uid string, revision uint64) (bool, error) {
	at := r.cfg.History.At(revision)
	for _, v := range at.Objects("") {
		_, data, ok, err := at.Get(v.Key)
		if err != nil {
			return false, err
		}
		if decoded, err := headOf(data); err != nil {
			return false, err
		} else if ok && decoded.Metadata.UID == uid {
			return decoded.Metadata.DeletionTimestamp == "" ||
				!slices.Contains(decoded.Metadata.Finalizers, metav1.FinalizerDeleteDependents), nil
		}
	}
	return false, nil
}

// toReplay replaces the UIDs of objects that the recorded operator created by those of the same
// objects in the replay.
func (r *replay) toReplay(data []byte) []byte {
	return r.replaceUIDs(data, func(recorded, replayed string) (from, to string) { return recorded, replayed })
}

// toRecorded is the reverse of toReplay.
func (r *replay) toRecorded(data []byte) []byte {
	return r.replaceUIDs(data, func(recorded, replayed string) (from, to string) { return replayed, recorded })
}

func (r *replay) replaceUIDs(data []byte, pair func(recorded, replayed string) (from, to string)) []byte {
	if data == nil {
		return nil
	}
	var pairs []string
	now := r.store.Snapshot()
	for key, uid := range r.uids {
		obj := now.Get(store.Key(key))
		if obj == nil {
			continue
		}
		if decoded, err := headOf(obj.Data); err == nil && decoded.Metadata.UID != "" {
			from, to := pair(uid, decoded.Metadata.UID)
			pairs = append(pairs, from, to)
		}
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(data)))
}
