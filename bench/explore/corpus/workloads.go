package corpus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// owned gives an object the labels of the resource and makes the resource its controller.
func owned[T client.Object](cm *corev1.ConfigMap, obj T, role string) (T, error) {
	obj.SetLabels(map[string]string{"app": cm.Name, "role": role})
	return obj, controllerutil.SetControllerReference(cm, obj, clientgoscheme.Scheme)
}

func annotate(ctx context.Context, c client.Client, cm *corev1.ConfigMap, key, value string) error {
	if cm.Annotations[key] == value {
		return nil
	}
	before := cm.DeepCopy()
	if cm.Annotations == nil {
		cm.Annotations = map[string]string{}
	}
	cm.Annotations[key] = value
	return c.Patch(ctx, cm, client.MergeFrom(before))
}

func template(cm *corev1.ConfigMap) corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "nginx"}}}
}

// writesChildBack scales a ReplicaSet, and copies the number of its ready replicas to the resource.
// The bug: it writes the response to its own update to the cache, and so overwrites the state of a
// later event. No further event corrects it.
func writesChildBack(fixed bool) func() reconciler {
	return stateless(alive(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		size, err := strconv.ParseInt(cm.Data["size"], 10, 32)
		if err != nil {
			return err
		}
		set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace, Name: cm.Name}}
		err = c.Get(ctx, client.ObjectKeyFromObject(set), set)
		switch {
		case apierrors.IsNotFound(err):
			if set, err = owned(cm, set, "set"); err != nil {
				return err
			}
			set.Spec = appsv1.ReplicaSetSpec{Replicas: ptr.To(int32(size)),
				Selector: &metav1.LabelSelector{MatchLabels: set.Labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: set.Labels}, Spec: template(cm)}}
			return client.IgnoreAlreadyExists(c.Create(ctx, set))
		case err != nil:
			return err
		case *set.Spec.Replicas != int32(size):
			set.Spec.Replicas = ptr.To(int32(size))
			if err := c.Update(ctx, set); err != nil || fixed {
				return err
			}
			return c.(cached).writeBack(ctx, set)
		}
		return annotate(ctx, c, cm, "ready", strconv.Itoa(int(set.Status.ReadyReplicas)))
	}))
}

// managesKey creates a Secret with a generated name, which the resource then names, and deletes
// other candidates. The bug: it trusts the name in its cache, so it deletes the Secret that is in
// use.
func managesKey(fixed bool) func() reconciler {
	const next = "next"
	return stateless(alive(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		var keys corev1.SecretList
		children := []client.ListOption{client.InNamespace(cm.Namespace),
			client.MatchingLabels{"app": cm.Name, "role": "key"}}
		if err := c.List(ctx, &keys, children...); err != nil {
			return err
		}
		if len(keys.Items) == 0 {
			// The cache may be late.
			if err := c.(cached).live.List(ctx, &keys, children...); err != nil {
				return err
			}
		}
		if len(keys.Items) == 0 {
			key, err := owned(cm, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace,
				GenerateName: cm.Name + "-next-"}}, "key")
			if err != nil {
				return err
			}
			if err := c.Create(ctx, key); err != nil {
				return err
			}
			return annotate(ctx, c, cm, next, key.Name)
		}
		if fixed {
			if err := c.(cached).live.Get(ctx, client.ObjectKeyFromObject(cm), cm); err != nil {
				return client.IgnoreNotFound(err)
			}
		}
		named := slices.ContainsFunc(keys.Items, func(key corev1.Secret) bool {
			return key.Name == cm.Annotations[next]
		})
		if fixed && !named {
			// An earlier process has created the Secret, and ended before it recorded the name.
			return annotate(ctx, c, cm, next, keys.Items[0].Name)
		}
		for _, key := range keys.Items {
			if key.Name == cm.Annotations[next] {
				continue
			}
			if err := c.Delete(ctx, &key, client.Preconditions{UID: &key.UID}); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		return nil
	}))
}

// external is the ConfigMap that resources of reads refer to.
func external() *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "external"},
		Data: map[string]string{"value": "a"}}
}

// readsExternal creates a child with a value of another ConfigMap, and deletes the child when the
// resource is deleted. The bug: if the child still exists after the deletion, it computes the child
// again. That fails if the other ConfigMap no longer exists, so the resource is never
// deleted.
func readsExternal(fixed bool) func() reconciler {
	return stateless(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		if cm.Name == external().Name {
			return nil
		}
		child := secret(cm, "-data")
		compute := func() error {
			from := external()
			if err := c.(cached).live.Get(ctx, client.ObjectKeyFromObject(from), from); err != nil {
				return err
			}
			child.Data = map[string][]byte{"value": []byte(from.Data["value"])}
			return nil
		}
		if cm.DeletionTimestamp == nil {
			if controllerutil.AddFinalizer(cm, finalizer) {
				return c.Update(ctx, cm)
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(child), child); !apierrors.IsNotFound(err) {
				return err
			}
			if err := compute(); err != nil {
				return client.IgnoreNotFound(err)
			}
			if err := controllerutil.SetControllerReference(cm, child, clientgoscheme.Scheme); err != nil {
				return err
			}
			return client.IgnoreAlreadyExists(c.Create(ctx, child))
		}
		if !controllerutil.ContainsFinalizer(cm, finalizer) {
			return nil
		}
		live := c.(cached).live
		err := live.Get(ctx, client.ObjectKeyFromObject(child), child)
		if err == nil && !metav1.IsControlledBy(child, cm) {
			// It belongs to another client.
			err = apierrors.NewNotFound(corev1.Resource("secrets"), child.Name)
		} else if err == nil && child.DeletionTimestamp == nil {
			if err := c.Delete(ctx, child, client.Preconditions{UID: &child.UID}); client.IgnoreNotFound(err) != nil {
				return err
			}
			err = live.Get(ctx, client.ObjectKeyFromObject(child), child)
		} else if !fixed {
			if err := compute(); err != nil {
				return err
			}
		}
		if err == nil || !apierrors.IsNotFound(err) {
			return err // the deletion of the child comes as an event
		}
		controllerutil.RemoveFinalizer(cm, finalizer)
		return client.IgnoreNotFound(c.Update(ctx, cm))
	})
}

// errLeaders is the error of a follower that does not have exactly one leader.
var errLeaders = errors.New("there must be one leader")

// countsLeaders runs a leader and a follower, which starts after its leader and again after each
// failure of the leader. The bug: Pods that have failed, which stay for inspection, are counted as
// leaders, so no other follower exists.
func countsLeaders(fixed bool) func() reconciler {
	return stateless(alive(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		var pods corev1.PodList
		if err := c.(cached).live.List(ctx, &pods, client.InNamespace(cm.Namespace),
			client.MatchingLabels{"app": cm.Name}); err != nil {
			return err
		}
		leaders, failed, followers, running := 0, map[string]int{}, []corev1.Pod{}, (*corev1.Pod)(nil)
		for _, p := range pods.Items {
			role := p.Labels["role"]
			switch {
			case p.Status.Phase == corev1.PodFailed:
				if failed[role]++; role == "leader" && !fixed {
					leaders++
				}
			case p.DeletionTimestamp != nil:
			case role == "leader":
				running = &p
				leaders++
			default:
				followers = append(followers, p)
			}
		}
		create := func(role, leader string) error {
			pod, err := owned(cm, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: cm.Namespace,
				Name:        fmt.Sprintf("%s-%s-%s%d", cm.Name, role, leader, failed[role]+1),
				Annotations: map[string]string{"leader": leader}}, Spec: template(cm)}, role)
			if err != nil {
				return err
			}
			return client.IgnoreAlreadyExists(c.Create(ctx, pod))
		}
		if running == nil {
			return create("leader", "")
		}
		leader := running.Name[len(cm.Name+"-leader-"):] + "-"
		for _, f := range followers {
			if f.Annotations["leader"] == leader {
				return nil
			}
			if err := c.Delete(ctx, &f, client.Preconditions{UID: &f.UID}); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		if leaders != 1 {
			return errLeaders
		}
		return create("follower", leader)
	}))
}
