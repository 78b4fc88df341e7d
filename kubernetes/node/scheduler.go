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

// SchedulerConfig configures a Scheduler.
type SchedulerConfig struct {
	// Config connects to the API server, over any transport. Required.
	Config *rest.Config
	// Name is the scheduler's name: it binds pods with this spec.schedulerName. "" means
	// default-scheduler.
	Name string
	// Log receives errors; nil discards them.
	Log *slog.Logger
}

// Scheduler binds pods to nodes, one at a time: pods with the highest priority first, then the
// oldest.
//
// It follows pods and nodes and keeps the sum of requests per node, so that a decision reads only
// nodes. It counts a pod as soon as it has chosen its node, before the server confirms the binding.
// A pod that fits no node waits until something changes that might help: a node appears or changes,
// a pod ends or is deleted, or the pod itself changes. Nothing is polled.
type Scheduler struct {
	config      SchedulerConfig
	client      client.Client
	broadcaster *events.Broadcaster
	recorder    *events.Recorder
	log         *slog.Logger
	wake        chan struct{} // capacity 1

	mu        sync.Mutex
	nodeInfos map[string]*nodeInfo
	bound     map[types.UID]*corev1.Pod // pods with a node, for nodes that appear later
	waiting   map[types.UID]*waiting
	unsynced  int // number of mirrors without a complete list
}

// waiting is a pod without a node.
type waiting struct {
	pod   *corev1.Pod
	tried bool    // no node fits, and nothing has changed since
	retry retries // after the server rejected the binding
}

// NewScheduler returns a scheduler; call Run to start it.
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
		log: config.Log, wake: make(chan struct{}, 1), unsynced: 2,
		nodeInfos: map[string]*nodeInfo{}, bound: map[types.UID]*corev1.Pod{}, waiting: map[types.UID]*waiting{}}, nil
}

// Run schedules pods until ctx ends, and returns nil. It must be called at most once.
func (s *Scheduler) Run(ctx context.Context) error {
	pods := &mirror[corev1.Pod, *corev1.Pod]{client: s.client, log: s.log, changed: s.podChanged, synced: sync.OnceFunc(s.synced)}
	nodes := &mirror[corev1.Node, *corev1.Node]{client: s.client, log: s.log, changed: s.nodeChanged, synced: sync.OnceFunc(s.synced)}
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

// synced records that a mirror has its first list. Scheduling starts when both have one.
func (s *Scheduler) synced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsynced--
	s.poke()
}

func (s *Scheduler) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// retryAll considers all waiting pods again. The caller holds mu.
func (s *Scheduler) retryAll() {
	for _, w := range s.waiting {
		w.tried = false
	}
	s.poke()
}

// podChanged updates the nodes' pods and the waiting pods.
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
			return // an event from before the binding
		}
		if w == nil {
			w = &waiting{}
			s.waiting[pod.UID] = w
		}
		// A change of only the status, such as the report that it is unschedulable, is no reason to
		// try again.
		if old == nil || !equality.Semantic.DeepEqual(old.Spec, pod.Spec) || !equality.Semantic.DeepEqual(old.Labels, pod.Labels) {
			w.tried = false
			s.poke()
		}
		w.pod = pod
	}
}

// wanted reports whether this scheduler binds the pod, which has no node.
func (s *Scheduler) wanted(pod *corev1.Pod) bool {
	return pod.Spec.SchedulerName == s.config.Name && len(pod.Spec.SchedulingGates) == 0 && pod.DeletionTimestamp == nil
}

// take counts a bound pod on its node. The caller holds mu.
func (s *Scheduler) take(pod *corev1.Pod) {
	s.free(pod.UID)
	s.bound[pod.UID] = pod
	if r := s.nodeInfos[pod.Spec.NodeName]; r != nil {
		r.add(pod)
	}
}

// free stops counting a pod. It returns false if the pod was not counted. The caller holds mu.
func (s *Scheduler) free(uid types.UID) bool {
	pod := s.bound[uid]
	if pod == nil {
		return false
	}
	delete(s.bound, uid)
	if r := s.nodeInfos[pod.Spec.NodeName]; r != nil {
		r.remove(string(uid))
	}
	return true
}

// nodeChanged updates the nodes.
func (s *Scheduler) nodeChanged(old, node *corev1.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if node == nil {
		delete(s.nodeInfos, old.Name)
		return
	}
	r := s.nodeInfos[node.Name]
	if r == nil {
		r = newNodeInfo(node)
		s.nodeInfos[node.Name] = r
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

// next picks the next waiting pod to schedule. If none is due, again is when one will be, or zero.
func (s *Scheduler) next(now time.Time) (picked *waiting, again time.Time) {
	if s.unsynced > 0 {
		return nil, again
	}
	for _, w := range s.waiting {
		switch {
		case w.tried:
		case !w.retry.due(now):
			if again.IsZero() || w.retry.at.Before(again) {
				again = w.retry.at
			}
		case picked == nil || scheduleOrder(w.pod, picked.pod) < 0:
			picked = w
		}
	}
	return picked, again
}

// scheduleOrder compares two pods by the order in which they are scheduled.
func scheduleOrder(a, b *corev1.Pod) int {
	return cmp.Or(
		cmp.Compare(schedulingv1.PodPriority(b), schedulingv1.PodPriority(a)),
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name),
	)
}

// schedule schedules all pods that are due. It returns when the next one is due, or zero.
func (s *Scheduler) schedule(ctx context.Context) time.Time {
	for {
		s.mu.Lock()
		w, again := s.next(time.Now())
		if w == nil || ctx.Err() != nil {
			s.mu.Unlock()
			return again
		}
		pod := w.pod
		node, message := choose(pod, s.nodeInfos)
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

// bind creates the binding. The uid prevents binding another pod with the same name.
func (s *Scheduler) bind(ctx context.Context, pod *corev1.Pod, node string) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	target := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
	return s.client.Subresource("binding").Create(ctx, target, binding)
}

// unbind undoes take after the server rejected the binding. If the pod is gone or bound by another
// scheduler, it does nothing else.
func (s *Scheduler) unbind(pod *corev1.Pod, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.waiting[pod.UID]
	if w == nil {
		return // the mirror has already reported a change
	}
	s.free(pod.UID)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return // the mirror will report the change
	}
	w.tried = false
	w.retry.failed(time.Now(), time.Second, 10*time.Second)
	if !errors.Is(err, context.Canceled) {
		s.log.Warn("bind pod", "pod", client.KeyOf(pod).String(), "error", err, "retry", w.retry.delay)
		s.recorder.Event(pod, corev1.EventTypeWarning, "FailedScheduling", fmt.Sprintf("running Bind plugin: %v", err))
	}
}

// reject writes to the pod's condition why it has no node, and records an event if the reason is
// new.
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
		s.log.Warn("report unschedulable pod", "pod", client.KeyOf(pod).String(), "error", err)
	}
}
