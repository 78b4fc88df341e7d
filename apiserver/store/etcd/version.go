package etcd

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

// Members before these versions may report progress of a watch before they have sent its events
// (https://github.com/etcd-io/etcd/issues/15220). A store would miss these events permanently.
// Kubernetes requires the same versions for its consistent reads from the watch cache.
var (
	oldest34 = version.MustParseSemantic("3.4.31")
	first35  = version.MustParseSemantic("3.5.0-alpha.0")
	oldest35 = version.MustParseSemantic("3.5.13")
)

// versionTimeout limits the requests for the versions of members that may not respond.
const versionTimeout = 2 * time.Second

// checkVersions returns an error if a member is too old. It ignores members that do not respond.
func (l *Log) checkVersions(ctx context.Context, endpoints []string) error {
	ctx, cancel := context.WithTimeout(ctx, min(l.timeout, versionTimeout))
	defer cancel()
	errs := make([]error, len(endpoints))
	var requests sync.WaitGroup
	for i, endpoint := range endpoints {
		requests.Go(func() {
			if answer, err := l.client.Status(ctx, endpoint); err == nil && tooOld(answer.Version) {
				errs[i] = fmt.Errorf("etcd %s at %s is too old, because its watches may lose events: update it to %s or later", answer.Version, endpoint, oldest35)
			}
		})
	}
	requests.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// tooOld reports whether watches of a version of etcd may lose events. Versions of other programs
// that cannot be parsed are not too old.
func tooOld(text string) bool {
	v, err := version.ParseSemantic(text)
	if err != nil {
		return false
	}
	return v.LessThan(oldest34) || v.AtLeast(first35) && v.LessThan(oldest35)
}
