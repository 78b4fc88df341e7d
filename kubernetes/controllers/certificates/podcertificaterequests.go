package certificates

import (
	"context"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/derived"
	"kelson.dev/kubernetes/controllers/follow"
	"kelson.dev/operator/client"
)

const podRequests = "podcertificaterequests.certificates.k8s.io"

// keepPodRequest is how long PodCertificateRequests are kept, with or without a certificate.
// Kubelets wait less than this for one.
const keepPodRequest = 15 * time.Minute

// clearPodRequest deletes a PodCertificateRequest at the end of keepPodRequest.
func (c *Controller) clearPodRequest(ctx context.Context, namespace, name string) (again time.Duration, err error) {
	stored, err := derived.Get[certificatesv1.PodCertificateRequest](c.cfg.Store.Snapshot(), podRequests, namespace,
		name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if left := time.Until(stored.CreationTimestamp.Add(keepPodRequest)); left > 0 {
		return left, nil
	}
	if stored.DeletionTimestamp != nil {
		return 0, nil // waiting for a finalizer
	}
	err = c.cfg.PodRequests.Delete(ctx, stored, client.Preconditions{UID: stored.UID})
	if !follow.Exists(c.cfg.Store, store.Key{Resource: podRequests, Namespace: namespace, Name: name}, stored.UID) {
		err = nil // deleted, or created again, by another client
	}
	return 0, err
}
