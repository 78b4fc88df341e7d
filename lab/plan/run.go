package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/filters"
	"kelson.dev/apiserver/inprocess"
	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/lab/history"
	"kelson.dev/lab/planned"
	"kelson.dev/operator/client"
	"kelson.dev/operator/trace"
)

// Config configures a run of an operator.
type Config struct {
	// Operator runs the operator until ctx ends. Required.
	Operator func(ctx context.Context, to Target) error
	// User is the name of the user with whose rights the operator runs, such as
	// system:serviceaccount:NAMESPACE:NAME; "" means an administrator.
	User string
	// Install lists the definitions and roles that belong to the operator. They replace those of
	// the state before the operator starts.
	Install []*unstructured.Unstructured
	// Quiet is how long nothing must happen until the operator counts as quiet; 0 means
	// DefaultQuiet. Timeout is how long it may take; 0 means DefaultTimeout. Both are real time.
	Quiet, Timeout time.Duration
}

// Defaults of Config.
const (
	DefaultQuiet   = 2 * time.Second
	DefaultTimeout = 2 * time.Minute
)

// Target is the control plane against which an operator runs.
type Target struct {
	// Config is a client configuration with the operator's rights, without a network.
	Config *rest.Config
	// Handler serves the same requests, for a port. Other clients must not be able to reach it,
	// because it does not authenticate requests.
	Handler http.Handler
	// Reconciled accepts the records of the operator's reconciles, if the operator records them.
	Reconciled func(trace.LineRecord)
}

// ErrEnded is wrapped by the error of Run if the operator ends without being stopped.
var ErrEnded = errors.New("the operator ended")

// Run runs an operator on a copy of a state until it is quiet.
func Run(ctx context.Context, state *State, cfg Config) (*Plan, error) {
	cfg.Quiet = cmp.Or(cfg.Quiet, DefaultQuiet)
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	hooks := &hooks{}
	plane, err := state.fork(ctx, hooks)
	if err != nil {
		return nil, err
	}
	defer plane.Stop()
	r := &run{state: state, cfg: cfg, plane: plane, recorder: newRecorder()}
	if err := r.install(ctx); err != nil {
		return nil, err
	}
	before := plane.Store().Snapshot()
	if err := hooks.learn(before); err != nil {
		return nil, err
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel()
	if state.nodes { // otherwise, the control plane simulates a node of its own
		kubelets := newKubelets(plane, before.Revision())
		parts.Go(func() { _ = kubelets.run(ctx) }) // ends with ctx or the store
	}
	if r.before, err = r.settle(ctx); err != nil {
		return nil, err
	}
	r.began = time.Now()
	plane.Store().Gate(r.recorder.commit)
	parts.Go(func() { r.recorder.follow(ctx, plane.Store(), r.before.Revision()) })
	if err := r.operate(ctx); err != nil {
		return nil, err
	}
	return r.plan()
}

// run is one run of an operator.
type run struct {
	state      *State
	cfg        Config
	plane      *controlplane.ControlPlane
	recorder   *recorder
	before     *store.Snapshot // when the operator started
	began      time.Time       // the same moment
	installed  []Installed
	incomplete string
	notes      []string // in addition to those of the state

	mu      sync.Mutex
	records []trace.LineRecord
}

// settleQuiet and settleLimit limit how long the control plane's own controllers may work on a
// state before the operator starts.
const (
	settleQuiet = 200 * time.Millisecond
	settleLimit = 5 * time.Second
)

// settle waits until the controllers are idle, and then returns the state.
func (r *run) settle(ctx context.Context) (*store.Snapshot, error) {
	limit := time.After(settleLimit)
	for {
		now := r.plane.Store().Snapshot()
		quiet, cancel := context.WithTimeout(ctx, settleQuiet)
		err := r.plane.Store().Await(quiet, now.Revision(), "")
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded):
			return now, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-limit:
			return r.plane.Store().Snapshot(), nil
		default:
		}
	}
}

// target returns the control plane against which the operator runs.
func (r *run) target() Target {
	admin := &user.DefaultInfo{Name: "kelson-admin",
		Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}
	if r.cfg.User != "" {
		admin = &user.DefaultInfo{Name: r.cfg.User, Groups: []string{user.AllAuthenticated}}
		if account, ok := strings.CutPrefix(r.cfg.User, "system:serviceaccount:"); ok {
			namespace, _, _ := strings.Cut(account, ":")
			admin.Groups = append(admin.Groups, "system:serviceaccounts", "system:serviceaccounts:"+namespace)
		}
	}
	served := r.recorder.handler(r.plane.Handler())
	handler := http.HandlerFunc(func(w http.ResponseWriter, hr *http.Request) {
		served.ServeHTTP(w, hr.WithContext(filters.WithUser(hr.Context(), admin)))
	})
	return Target{
		Config:  &rest.Config{Host: inprocess.URL, Transport: &inprocess.Transport{Handler: handler}, QPS: -1},
		Handler: handler, Reconciled: r.reconciled,
	}
}

func (r *run) reconciled(record trace.LineRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, record)
}

// operate runs the operator until it is quiet or the time is over.
func (r *run) operate(ctx context.Context) error {
	operating, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.cfg.Operator(operating, r.target()) }()
	timeout := time.NewTimer(r.cfg.Timeout)
	defer timeout.Stop()
	tick := time.NewTicker(max(r.cfg.Quiet/20, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err == nil {
				err = errors.New("without an error")
			}
			return fmt.Errorf("%w: %w", ErrEnded, err)
		case <-timeout.C:
			if r.incomplete = fmt.Sprintf("the operator still changed objects after %v",
				r.cfg.Timeout); !r.recorder.hasStarted() {
				r.incomplete = fmt.Sprintf("the operator sent no request within %v", r.cfg.Timeout)
			}
		case <-tick.C:
			if !r.quiet() {
				continue
			}
		case <-ctx.Done():
			stop()
			<-ended
			return ctx.Err()
		}
		stop()
		<-ended // wait until its last records have arrived
		return r.recorder.lost
	}
}

// quiet reports whether the run is quiet. An operator that sends requests but changes nothing for a
// long time counts as quiet: it polls, or retries failures. Kubernetes' controllers and the
// simulated kubelets get more time for objects that the operator has created; quiet assumes that
// objects that do not start in that time never start. An operator that watches no kind, such as one
// with only webhooks, sends no request at all.
func (r *run) quiet() bool {
	const polls, starts, silent = 3, 10, 15
	unchanged, idle := r.recorder.idle()
	if !r.recorder.hasStarted() {
		if unchanged < silent*r.cfg.Quiet {
			return false
		}
		r.notes = append(r.notes, fmt.Sprintf("the operator sent no request within %v", silent*r.cfg.Quiet))
		return true
	}
	if idle < r.cfg.Quiet && unchanged < polls*r.cfg.Quiet {
		return false
	}
	return unchanged >= starts*r.cfg.Quiet || !r.starting()
}

// observing lists the kinds whose controllers report the generation that they have seen.
var observing = []string{"deployments.apps", "replicasets.apps", "statefulsets.apps", "daemonsets.apps"}

// starting reports whether a controller has not seen an object of the run, or a pod of the run has
// not started.
func (r *run) starting() bool {
	now := r.plane.Store().Snapshot()
	for _, resource := range observing {
		for obj := range now.Scan(resource, "", store.Key{}) {
			if obj.Revision <= r.before.Revision() {
				continue
			}
			var seen struct {
				Metadata struct {
					Generation int64 `json:"generation"`
				} `json:"metadata"`
				Status struct {
					Observed int64 `json:"observedGeneration"`
				} `json:"status"`
			}
			if json.Unmarshal(obj.Data, &seen) == nil && seen.Status.Observed < seen.Metadata.Generation {
				return true
			}
		}
	}
	for obj := range now.Scan("pods", "", store.Key{}) {
		if obj.Created <= r.before.Revision() {
			continue
		}
		if pod, err := derived.Of[corev1.Pod](obj); err == nil && pod.Status.Phase == corev1.PodPending &&
			!unschedulable(pod) {
			return true
		}
	}
	return false
}

func unschedulable(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
			c.Reason == corev1.PodReasonUnschedulable
	})
}

// install creates or replaces the objects that belong to the operator.
func (r *run) install(ctx context.Context) error {
	c, err := client.New(client.Config{REST: r.plane.RESTConfig(), FieldOwner: "kelson-plan"})
	if err != nil {
		return err
	}
	for _, obj := range r.cfg.Install {
		if err := r.put(ctx, c, obj.DeepCopy()); err != nil {
			return fmt.Errorf("install %s %s on the copy: %w", obj.GetKind(), obj.GetName(), err)
		}
	}
	return nil
}

func (r *run) put(ctx context.Context, c client.Client, obj *unstructured.Unstructured) error {
	gk := obj.GroupVersionKind().GroupKind()
	res, ok := r.plane.Registry().Current().ByKind(gk)
	if !ok {
		return &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: []string{obj.GroupVersionKind().Version}}
	}
	ref := Ref{Group: gk.Group, Kind: gk.Kind, Resource: res.Plural, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	if gk.Kind == "CustomResourceDefinition" {
		refuseConversion(obj)
	}
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(obj.GroupVersionKind())
	err := c.Get(ctx, client.KeyOf(obj), live)
	if apierrors.IsNotFound(err) {
		r.installed = append(r.installed, Installed{Verb: planned.Create, Object: ref})
		return c.Create(ctx, obj)
	}
	if err != nil {
		return err
	}
	if gk.Kind == "Namespace" || gk.Kind == "ServiceAccount" {
		return nil
	}
	before, err := live.MarshalJSON()
	if err != nil {
		return err
	}
	replace(live, obj)
	if err := c.Update(ctx, live); err != nil {
		return err
	}
	after, err := live.MarshalJSON()
	if err != nil {
		return err
	}
	changes, err := history.Diff(before, after, history.DiffOptions{})
	if err != nil {
		return err
	}
	if changes = slices.DeleteFunc(changes, func(c history.Change) bool {
		return bookkeeping[c.Path]
	}); len(changes) > 0 {
		r.installed = append(r.installed, Installed{Verb: planned.Update, Object: ref, Changes: changes})
	}
	return nil
}

// replace replaces an object by its manifest. It keeps the metadata that the server sets, the
// status, and the conversion of a CustomResourceDefinition, which is added on deployment and not
// part of the manifest.
func replace(live, wanted *unstructured.Unstructured) {
	conversion, configured, _ := unstructured.NestedMap(live.Object, "spec", "conversion")
	for field := range live.Object {
		if field != "metadata" && field != "status" && field != "apiVersion" && field != "kind" {
			delete(live.Object, field)
		}
	}
	for field, value := range wanted.Object {
		if field != "metadata" && field != "status" {
			live.Object[field] = value
		}
	}
	if _, configures, _ := unstructured.NestedMap(wanted.Object, "spec", "conversion"); configured && !configures &&
		live.GetKind() == "CustomResourceDefinition" {
		_ = unstructured.SetNestedMap(live.Object, conversion, "spec", "conversion")
	}
	live.SetLabels(merged(live.GetLabels(), wanted.GetLabels()))
	live.SetAnnotations(merged(live.GetAnnotations(), wanted.GetAnnotations()))
}

func merged(a, b map[string]string) map[string]string {
	if len(b) == 0 {
		return a
	}
	all := map[string]string{}
	for _, m := range []map[string]string{a, b} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

// bookkeeping lists fields that the server maintains.
var bookkeeping = map[string]bool{
	".metadata.generation": true, ".metadata.uid": true, ".metadata.creationTimestamp": true,
	".metadata.selfLink": true,
}

// kindOf returns the kind of a resource that the control plane serves.
func (r *run) kindOf(group, plural string) string {
	if res, ok := r.plane.Registry().Current().ByName(schema.GroupResource{Group: group, Resource: plural}); ok {
		return res.Kind
	}
	return ""
}
