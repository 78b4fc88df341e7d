package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// minStopGrace is the time that a container has to end after its preStop hook, even if the hook
// took all of the grace period. Kubelets use the same value.
const minStopGrace = 2 * time.Second

// startHookAndProbes starts the postStart hook and the probes of a container that has just started.
// They end when the container ends.
func (w *worker) startHookAndProbes(r *record, c Container) {
	if r.spec.Lifecycle == nil && r.spec.StartupProbe == nil && r.spec.ReadinessProbe == nil &&
		r.spec.LivenessProbe == nil {
		return
	}
	t := target{c, r.spec, w.sandbox.IP()}
	w.background.Go(func() {
		ctx, cancel := context.WithCancel(w.ctx)
		defer cancel()
		w.background.Go(func() {
			select {
			case <-c.Done():
				cancel()
			case <-ctx.Done():
			}
		})
		if r.spec.Lifecycle != nil && r.spec.Lifecycle.PostStart != nil && !w.postStart(ctx, r, t) {
			return
		}
		if r.spec.StartupProbe != nil {
			if !w.probeLoop(ctx, r, t, "Startup", r.spec.StartupProbe, func(ok bool) bool { return !ok }) {
				return
			}
		}
		var readiness sync.WaitGroup
		if p := r.spec.ReadinessProbe; p != nil {
			readiness.Go(func() { w.probeLoop(ctx, r, t, "Readiness", p, func(bool) bool { return true }) })
		}
		if p := r.spec.LivenessProbe; p != nil {
			w.probeLoop(ctx, r, t, "Liveness", p, func(ok bool) bool { return ok })
		}
		readiness.Wait()
	})
}

// postStart runs the postStart hook. If it fails, postStart stops the container and returns false.
func (w *worker) postStart(ctx context.Context, r *record, t target) bool {
	err := t.hook(ctx, r.spec.Lifecycle.PostStart, w.agent.userAgent())
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		w.log().Info("postStart hook", "container", r.spec.Name, "error", err)
		w.recordAbout(r, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed")
		w.stopFailed(r, t.container, "FailedPostStartHook", nil)
		return false
	}
	w.change(r, t.container, func() { r.hooking = false })
	return true
}

// probeLoop runs a probe periodically and records its results, until ctx ends or proceed returns
// false for a result. It returns whether the last result was a success.
func (w *worker) probeLoop(ctx context.Context, r *record, t target, kind string, p *corev1.Probe,
	proceed func(ok bool) bool) (last bool) {
	wait := time.Duration(p.InitialDelaySeconds)*time.Second - time.Since(t.container.StartedAt())
	successes, failures := int32(0), int32(0)
	for {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(wait):
		}
		began := time.Now()
		err := t.probe(ctx, p, w.agent.userAgent())
		if ctx.Err() != nil {
			return false
		}
		wait = time.Duration(max(p.PeriodSeconds, 1))*time.Second - time.Since(began)
		var failure *unhealthyError
		switch {
		case err == nil:
			successes, failures = successes+1, 0
		case errors.As(err, &failure):
			successes, failures = 0, failures+1
			w.recordAbout(r, corev1.EventTypeWarning, "Unhealthy",
				fmt.Sprintf("%s probe failed: %s", kind, failure.output))
		default: // no result
			w.recordAbout(r, corev1.EventTypeWarning, "Unhealthy",
				fmt.Sprintf("%s probe errored and resulted in unknown state: %v", kind, err))
			continue
		}
		if successes < max(p.SuccessThreshold, 1) && failures < max(p.FailureThreshold, 1) {
			continue
		}
		ok := failures == 0
		if !w.probed(r, t.container, kind, p, ok) || !proceed(ok) {
			return ok
		}
	}
}

// probed records the result of a probe, and stops the container if a liveness or startup probe has
// failed. It returns false if the container must not be probed again.
func (w *worker) probed(r *record, c Container, kind string, p *corev1.Probe, ok bool) bool {
	switch {
	case kind == "Readiness":
		return w.change(r, c, func() { r.unready = !ok })
	case !ok:
		message := fmt.Sprintf("Container %s failed %s probe", r.spec.Name, strings.ToLower(kind))
		w.mu.Lock()
		if restarts(w.newest, r, 137) {
			message += ", will be restarted"
		}
		w.mu.Unlock()
		w.stopFailed(r, c, message, p.TerminationGracePeriodSeconds)
		return false
	case kind == "Startup":
		return w.change(r, c, func() { r.unstarted = false })
	}
	return true
}

// change calls f and wakes the worker, if c is still the record's running container. Otherwise it
// returns false.
func (w *worker) change(r *record, c Container, f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.container != c || r.state.Running == nil {
		return false
	}
	f()
	w.replan()
	return true
}

// stopFailed stops a container that is not healthy, unless it is being stopped already.
func (w *worker) stopFailed(r *record, c Container, message string, seconds *int64) {
	first := false
	var period time.Duration
	w.change(r, c, func() {
		first, r.stopping = !r.stopping, true
		period = grace(w.newest)
	})
	if !first {
		return
	}
	if seconds != nil {
		period = time.Duration(*seconds) * time.Second
	}
	w.recordAbout(r, corev1.EventTypeNormal, "Killing", message)
	w.stopContainer(r, period)
}

func (w *worker) recordAbout(r *record, kind, reason, message string) {
	w.mu.Lock()
	pod := w.newest
	w.mu.Unlock()
	w.agent.events.container(pod, r, kind, reason, message)
}

// userAgent is the User-Agent of probes and hooks.
func (a *Agent) userAgent() string {
	version := strings.Split(strings.TrimPrefix(a.config.Version, "v"), ".")
	return "kube-probe/" + strings.Join(version[:min(2, len(version))], ".")
}

// stopHook is the preStop hook of one attempt of a container.
type stopHook struct {
	until time.Time // when the grace period ends
	timer *time.Timer
	over  bool
}

// stopContainer stops a container within a grace period, after its preStop hook. A later call can
// only shorten the remaining time. It does not wait.
func (w *worker) stopContainer(r *record, grace time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, hook, until := r.container, r.stopHook, time.Now().Add(grace)
	switch {
	case r.state.Running == nil || c == nil:
		return
	case !w.agent.config.Runtime.Info().Executes || r.spec.Lifecycle == nil || r.spec.Lifecycle.PreStop == nil ||
		hook != nil && hook.over:
		c.Stop(grace)
		return
	case hook != nil:
		if until.Before(hook.until) {
			hook.until = until
			hook.timer.Reset(grace)
		}
		return
	}
	ctx, cancel := context.WithCancel(w.ctx)
	hook = &stopHook{until: until, timer: time.AfterFunc(grace, cancel)}
	r.stopHook = hook
	t := target{c, r.spec, w.sandbox.IP()}
	w.background.Go(func() {
		defer cancel()
		defer hook.timer.Stop()
		w.background.Go(func() {
			select {
			case <-c.Done():
				cancel()
			case <-ctx.Done():
			}
		})
		if err := t.hook(ctx, r.spec.Lifecycle.PreStop, w.agent.userAgent()); err != nil && ctx.Err() == nil {
			w.log().Info("preStop hook", "container", r.spec.Name, "error", err)
			w.recordAbout(r, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		hook.over = true
		c.Stop(max(time.Until(hook.until), minStopGrace))
	})
}
