package builtin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/policy"
	"k8s.io/kubernetes/pkg/registry/core/pod"

	"kelson.dev/apiserver/resource"
)

// prepareEviction checks the body of pods/eviction, and completes its delete options if it has
// them.
func prepareEviction(_ context.Context, req *resource.Request, body runtime.Object) error {
	eviction := body.(*policy.Eviction)
	if req.Name != eviction.Name {
		return apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	opts, err := evictionOptions(req, eviction)
	if eviction.DeleteOptions != nil {
		eviction.DeleteOptions = opts
	}
	return err
}

// evictPod serves pods/eviction. It deletes the pod if the pod's disruption budget allows it. It
// returns an error if several budgets select the pod.
func (k *kinds) evictPod(ctx context.Context, req *resource.Request, body runtime.Object) (runtime.Object, error) {
	eviction := &policy.Eviction{}
	if err := Scheme().Convert(body, eviction, nil); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a Eviction object: %T", body))
	}
	opts, err := evictionOptions(req, eviction)
	if err != nil {
		return nil, err
	}
	dryRun := len(opts.DryRun) > 0
	pods := k.resource("", "pods")
	for retry := 0; ; retry++ {
		hub, err := req.Objects.Get(ctx, pods, req.Namespace, req.Name)
		if err != nil {
			return nil, err
		}
		p := hub.(*core.Pod)
		uncounted, pinned, err := k.takeDisruption(ctx, req.Objects, p, dryRun)
		if err != nil {
			return nil, err
		}
		err = k.evict(ctx, req.Objects, p, opts, pinned, dryRun)
		switch {
		case err == nil:
			return &metav1.Status{Status: metav1.StatusSuccess, Code: http.StatusCreated}, nil
		case !apierrors.IsConflict(err) || resourceVersionOf(opts) != "":
			return nil, err
		case uncounted && retry < 20:
			continue
		// The unhealthy pod was written concurrently. It may be healthy now and count for the
		// budget.
		case pinned && !uncounted:
			return nil, tooManyRequests(10, "The pod changed while it was being evicted.")
		// Another attempt would take another disruption.
		default:
			return nil, err
		}
	}
}

// evictionOptions returns the delete options of an eviction, with the dryRun of the request.
func evictionOptions(req *resource.Request, e *policy.Eviction) (*metav1.DeleteOptions, error) {
	opts := e.DeleteOptions.DeepCopy()
	if opts == nil {
		opts = &metav1.DeleteOptions{}
	}
	var asked []string
	if req.DryRun {
		asked = []string{metav1.DryRunAll}
	}
	if len(opts.DryRun) > 0 && len(asked) > 0 && !slices.Equal(opts.DryRun, asked) {
		return nil, fmt.Errorf("Non-matching dry-run options in request and content: %v and %v", asked, opts.DryRun)
	}
	if len(opts.DryRun) == 0 {
		opts.DryRun = asked
	}
	return opts, nil
}

func resourceVersionOf(opts *metav1.DeleteOptions) string {
	if opts.Preconditions == nil || opts.Preconditions.ResourceVersion == nil {
		return ""
	}
	return *opts.Preconditions.ResourceVersion
}

// evict marks the pod as disrupted and deletes it. If pinned is true, both writes have the revision
// of p as a precondition.
func (k *kinds) evict(ctx context.Context, objects resource.Objects, p *core.Pod, opts *metav1.DeleteOptions,
	pinned, dryRun bool) error {
	pods := k.resource("", "pods")
	opts = opts.DeepCopy()
	if opts.Preconditions == nil {
		opts.Preconditions = &metav1.Preconditions{}
	}
	want := resourceVersionOf(opts)
	if want == "" && pinned {
		want = p.ResourceVersion
	}
	if dryRun {
		_, err := objects.Delete(ctx, pods, p.Namespace, p.Name, opts)
		return err
	}
	updated, err := objects.Update(ctx, pods, p.Namespace, p.Name, pod.StatusStrategy, false,
		func(hub runtime.Object) error {
			now := hub.(*core.Pod)
			if uid := opts.Preconditions.UID; uid != nil && *uid != "" && *uid != now.UID {
				return apierrors.NewConflict(core.Resource("Pod"), p.Name,
					fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). "+
						"The object might have been deleted and then recreated", *uid, now.UID))
			}
			if want != "" && want != now.ResourceVersion {
				return apierrors.NewConflict(core.Resource("Pod"), p.Name,
					fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). "+
						"The object might have been modified", want, now.ResourceVersion))
			}
			podutil.UpdatePodCondition(&now.Status, &core.PodCondition{
				Type: core.DisruptionTarget, Status: core.ConditionTrue,
				Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting",
			})
			return nil
		})
	if err != nil {
		return err
	}
	if want != "" {
		opts.Preconditions.ResourceVersion = &updated.(*core.Pod).ResourceVersion
	}
	_, err = objects.Delete(ctx, pods, p.Namespace, p.Name, opts)
	return err
}

// takeDisruption takes one disruption from a pod's budget if the eviction needs one. If pinned is
// true, the decision is valid only for the revision of p. If uncounted is true, the pod does not
// count for any budget, and the caller may retry after a conflict.
func (k *kinds) takeDisruption(ctx context.Context, objects resource.Objects, p *core.Pod,
	dryRun bool) (uncounted, pinned bool, err error) {
	ended := p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed || p.DeletionTimestamp != nil
	if ended || p.Status.Phase == core.PodPending {
		return true, !ended, nil
	}
	budgets, err := k.budgets(ctx, objects, p)
	if err != nil {
		return false, false, err
	}
	switch len(budgets) {
	case 0:
		return false, false, nil
	case 1:
	default:
		return false, false, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Message: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
		}}
	}
	b := budgets[0]
	if !podutil.IsPodReady(p) {
		alwaysAllow := b.Spec.UnhealthyPodEvictionPolicy != nil &&
			*b.Spec.UnhealthyPodEvictionPolicy == policy.AlwaysAllow
		enoughHealthy := b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
		if alwaysAllow || enoughHealthy {
			return false, true, nil // the budget loses no healthy pod
		}
	}
	budget := k.resource("policy", "poddisruptionbudgets")
	// Like kube-apiserver, write the budget through the API.
	_, err = objects.UpdateStatus(ctx, budget, b.Namespace, b.Name, dryRun, func(hub runtime.Object) error {
		return take(hub.(*policy.PodDisruptionBudget), p.Name)
	})
	return false, false, err
}

// budgets returns the disruption budgets that select a pod.
func (k *kinds) budgets(ctx context.Context, objects resource.Objects,
	p *core.Pod) ([]*policy.PodDisruptionBudget, error) {
	hubs, err := objects.List(ctx, k.resource("policy", "poddisruptionbudgets"), p.Namespace, labels.Everything())
	if err != nil {
		return nil, err
	}
	var out []*policy.PodDisruptionBudget
	for _, hub := range hubs {
		b := hub.(*policy.PodDisruptionBudget)
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(p.Labels)) {
			out = append(out, b)
		}
	}
	return out, nil
}

// take records one disruption in a budget's status. It returns an error if the budget does not
// allow one.
func take(b *policy.PodDisruptionBudget, podName string) error {
	// most is the maximum number of disrupted pods in a budget's status. The budget's controller
	// removes pods from it when it observes their deletion.
	const most = 2000
	switch {
	case b.Status.ObservedGeneration < b.Generation:
		return tooManyRequests(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.",
			b.Name))
	case b.Status.DisruptionsAllowed < 0:
		return forbidden(b.Name, "pdb disruptions allowed is negative",
			fmt.Sprintf("The disruption budget %s does not allow evicting pods currently: pdb disruptions allowed is negative", b.Name))
	case len(b.Status.DisruptedPods) > most:
		return forbidden(b.Name, "DisruptedPods map too big - too many evictions not confirmed by PDB controller",
			fmt.Sprintf("The disruption budget %s does not allow evicting pods currently: too many pending evictions not confirmed by PDB controller", b.Name))
	case b.Status.DisruptionsAllowed == 0:
		return tooManyRequests(0, whyNoDisruption(b))
	}
	b.Status.DisruptionsAllowed--
	if b.Status.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&b.Status.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
			Reason:             policyv1.InsufficientPodsReason,
			ObservedGeneration: b.Status.ObservedGeneration,
		})
	}
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[podName] = metav1.Now()
	return nil
}

func whyNoDisruption(b *policy.PodDisruptionBudget) string {
	c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition)
	hasReason := c != nil && c.Status == metav1.ConditionFalse && c.Message != ""
	switch {
	case hasReason && c.Reason == policyv1.SyncFailedReason:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s",
			b.Name, c.Message)
	case b.Status.CurrentHealthy <= b.Status.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently", b.Name,
			b.Status.DesiredHealthy, b.Status.CurrentHealthy)
	case hasReason:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s", b.Name, c.Reason,
			c.Message)
	}
	return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", b.Name)
}

func tooManyRequests(retryAfter int, cause string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", retryAfter)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: cause})
	return err
}

func forbidden(budget, reason, cause string) error {
	err := apierrors.NewForbidden(policy.Resource("poddisruptionbudget"), budget, errors.New(reason))
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: cause})
	return err
}
