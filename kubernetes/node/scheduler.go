package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	schedulingv1 "k8s.io/component-helpers/scheduling/corev1"

	"kelson.dev/operator/client"
	"kelson.dev/operator/events"
)

// SchedulerConfig of a Scheduler.
type SchedulerConfig struct {
	// Config is how to reach the API server; any transport. Required.
	Config *rest.Config
	// Name is the scheduler's: it binds the pods whose spec.schedulerName it is. Empty: default-scheduler.
	Name string
	// Log is told what went wrong. nil: nobody is.
	Log *slog.Logger
}

// Scheduler binds pods to nodes, one after another: of the pods that wait those of highest priority first, then the oldest.
//
// It follows pods and nodes and keeps the sum of what is taken of each node, so that a decision looks at nothing but nodes. What it
// has bound counts at once, before the server's echo. A pod that no node can take waits until something changes that might help:
// a node appears or changes, a pod ends or goes, or the pod itself changes. Nothing is polled.
type Scheduler struct {
	config      SchedulerConfig
	client      client.Client
	broadcaster *events.Broadcaster
	recorder    *events.Recorder
	log         *slog.Logger
	wake        chan struct{} // of capacity 1

	mu      sync.Mutex
	rooms   map[string]*room
	bound   map[types.UID]*corev1.Pod // pods on nodes, for nodes that appear later
	waiting map[types.UID]*waiting
	unseen  int // mirrors that have not seen their first list
}

// waiting is a pod without a node.
type waiting struct {
	pod   *corev1.Pod
	tried bool    // no node could take it, and nothing has changed since
	retry retries // after the server refused the binding
}

// NewScheduler returns a scheduler that does nothing until Run.
func NewScheduler(config SchedulerConfig) (*Scheduler, error) {
	if config.Name == "" {
		config.Name = corev1.DefaultSchedulerName
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	c, err := client.New(client.Config{REST: config.Config, FieldOwner: "kube-scheduler"})
	if err != nil {
		return nil, fmt.Errorf("scheduler: %w", err)
	}
	broadcaster := events.New(events.Config{Client: c, Log: config.Log})
	return &Scheduler{config: config, client: c, broadcaster: broadcaster, recorder: broadcaster.Recorder(config.Name),
		log: config.Log, wake: make(chan struct{}, 1), unseen: 2,
		rooms: map[string]*room{}, bound: map[types.UID]*corev1.Pod{}, waiting: map[types.UID]*waiting{}}, nil
}

// Run schedules until ctx ends, and returns nil. It must be called once only.
func (s *Scheduler) Run(ctx context.Context) error {
	pods := &mirror[corev1.Pod, *corev1.Pod]{client: s.client, log: s.log, changed: s.podChanged, synced: sync.OnceFunc(s.seen)}
	nodes := &mirror[corev1.Node, *corev1.Node]{client: s.client, log: s.log, changed: s.nodeChanged, synced: sync.OnceFunc(s.seen)}
	var parts sync.WaitGroup
	parts.Go(func() { s.broadcaster.Run(ctx) })
	parts.Go(func() { pods.run(ctx) })
	parts.Go(func() { nodes.run(ctx) })
	for ctx.Err() == nil {
		again := s.schedule(ctx)
		var timer <-chan time.Time
		var t *time.Timer
		if !again.IsZero() {
			t = time.NewTimer(time.Until(again))
			timer = t.C
		}
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer:
		}
		if t != nil {
			t.Stop()
		}
	}
	parts.Wait()
	return nil
}

// seen notes that a mirror has its first list: decisions begin when both have.
func (s *Scheduler) seen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unseen--
	s.poke()
}

func (s *Scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// retryAll looks at every waiting pod again. Called with the lock.
func (s *Scheduler) retryAll() {
	for _, w := range s.waiting {
		w.tried = false
	}
	s.poke()
}

// podChanged keeps rooms and waiting pods up to date.
func (s *Scheduler) podChanged(old, pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case pod == nil || terminal(pod):
		if pod == nil {
			pod = old
		}
		delete(s.waiting, pod.UID)
		if s.free(pod.UID) {
			s.retryAll()
		}
	case pod.Spec.NodeName != "":
		delete(s.waiting, pod.UID)
		s.take(pod)
	case !s.wanted(pod):
		delete(s.waiting, pod.UID)
	default:
		w := s.waiting[pod.UID]
		if w == nil && s.bound[pod.UID] != nil {
			return // bound, and this is from before that
		}
		if w == nil {
			w = &waiting{}
			s.waiting[pod.UID] = w
		}
		// Its own status (the report that it can't be scheduled) is no reason to try again.
		if old == nil || !equality.Semantic.DeepEqual(old.Spec, pod.Spec) || !equality.Semantic.DeepEqual(old.Labels, pod.Labels) {
			w.tried = false
			s.poke()
		}
		w.pod = pod
	}
}

// wanted tells whether a pod without node is this scheduler's to bind.
func (s *Scheduler) wanted(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName == s.config.Name && len(pod.Spec.SchedulingGates) == 0 && pod.DeletionTimestamp == nil
}

// take counts a bound pod. Called with the lock.
func (s *Scheduler) take(pod *corev1.Pod) {
	s.free(pod.UID)
	s.bound[pod.UID] = pod
	if r := s.rooms[pod.Spec.NodeName]; r != nil {
		r.add(pod)
	}
}

// free stops counting a pod; false when it was not counted. Called with the lock.
func (s *Scheduler) free(uid types.UID) bool {
	pod := s.bound[uid]
	if pod == nil {
		return false
	}
	delete(s.bound, uid)
	if r := s.rooms[pod.Spec.NodeName]; r != nil {
		r.remove(string(uid))
	}
	return true
}

// nodeChanged keeps rooms up to date.
func (s *Scheduler) nodeChanged(old, node *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if node == nil {
		delete(s.rooms, old.Name)
		return
	}
	r := s.rooms[node.Name]
	if r == nil {
		r = newRoom(node)
		s.rooms[node.Name] = r
		for _, pod := range s.bound {
			if pod.Spec.NodeName == node.Name {
				r.add(pod)
			}
		}
	}
	r.node = node
	if old == nil || old.Spec.Unschedulable != node.Spec.Unschedulable || nodeReady(old) != nodeReady(node) ||
		!equality.Semantic.DeepEqual(old.Labels, node.Labels) || !equality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) ||
		!equality.Semantic.DeepEqual(old.Status.Allocatable, node.Status.Allocatable) {
		s.retryAll()
	}
}

// next picks the waiting pod to look at; again is when one is due if none is now.
func (s *Scheduler) next(now time.Time) (picked *waiting, again time.Time) {
	if s.unseen > 0 {
		return nil, again
	}
	for _, w := range s.waiting {
		switch {
		case w.tried:
		case !w.retry.due(now):
			if again.IsZero() || w.retry.at.Before(again) {
				again = w.retry.at
			}
		case picked == nil || sooner(w.pod, picked.pod) < 0:
			picked = w
		}
	}
	return picked, again
}

// sooner orders pods by who is scheduled first.
func sooner(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(schedulingv1.PodPriority(b), schedulingv1.PodPriority(a)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name),
	)
}

// schedule decides on every pod that is due; it returns when the next one is, or zero.
func (s *Scheduler) schedule(ctx context.Context) time.Time {
	for {
		s.mu.Lock()
		w, again := s.next(time.Now())
		if w == nil || ctx.Err() != nil {
			s.mu.Unlock()
			return again
		}
		pod := w.pod
		node, message := choose(pod, s.rooms)
		w.tried = true
		if node != "" {
			assumed := pod.DeepCopy()
			assumed.Spec.NodeName = node
			s.take(assumed)
		}
		s.mu.Unlock()

		if node == "" {
			s.reject(ctx, pod, message)
			continue
		}
		if err := s.bind(ctx, pod, node); err != nil {
			s.unbind(pod, err)
			continue
		}
		s.mu.Lock()
		delete(s.waiting, pod.UID)
		s.mu.Unlock()
		s.recorder.Event(pod, corev1.EventTypeNormal, "Scheduled", fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, node))
	}
}

// bind writes the binding, for this very pod.
func (s *Scheduler) bind(ctx context.Context, pod *corev1.Pod, node string) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return s.client.Subresource("binding").Create(ctx, target, binding)
}

// unbind takes back what was assumed, after the server said no. A pod that is gone or was bound by another needs nothing more.
func (s *Scheduler) unbind(pod *corev1.Pod, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiting[pod.UID]
	if w == nil {
		return // the mirror has told already
	}
	s.free(pod.UID)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return // the mirror will tell
	}
	w.tried = false
	w.retry.failed(time.Now(), time.Second, 10*time.Second)
	if !errors.Is(err, context.Canceled) {
		s.log.Warn("bind pod", "pod", client.KeyOf(pod).String(), "error", err, "retry", w.retry.delay)
		s.recorder.Event(pod, corev1.EventTypeWarning, "FailedScheduling", fmt.Sprintf("running Bind plugin: %v", err))
	}
}

// reject says why the pod has no node: in its condition, and in an event when that is news.
func (s *Scheduler) reject(ctx context.Context, pod *corev1.Pod, message string) {
	condition := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, ObservedGeneration: pod.Generation,
		Reason: corev1.PodReasonUnschedulable, Message: message}
	for _, old := range pod.Status.Conditions {
		if old.Type == condition.Type && old.Status == condition.Status && old.Reason == condition.Reason && old.Message == message {
			return
		}
	}
	s.recorder.Event(pod, corev1.EventTypeWarning, "FailedScheduling", message)
	status := *pod.Status.DeepCopy()
	setPodCondition(&status, condition, time.Now())
	if _, err := writeStatus(ctx, s.client, pod, status); err != nil && !errors.Is(err, errPodGone) && ctx.Err() == nil {
		s.log.Warn("report that a pod can't be scheduled", "pod", client.KeyOf(pod).String(), "error", err)
	}
}
