package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// counter issues the tokens 1, 2, ….
type counter struct {
	objects
	issued int
}

func (c *counter) token(context.Context, *corev1.Pod, *corev1.ServiceAccountTokenProjection) (string, error) {
	c.issued++
	return fmt.Sprint(c.issued), nil
}

// A token is renewed after 80 % of its lifetime, and at least daily. A volume with several tokens
// is renewed when the first of them needs it.
func TestTokensAreRenewed(t *testing.T) {
	now := time.Unix(1000, 0)
	second, day := int64(600), int64(30*24*3600)
	for _, test := range []struct {
		seconds []*int64
		after   time.Duration
	}{
		{[]*int64{nil}, 48 * time.Minute},
		{[]*int64{&second}, 8 * time.Minute},
		{[]*int64{&day}, 24 * time.Hour},
		{[]*int64{&day, &second, nil}, 8 * time.Minute},
	} {
		spec := &corev1.Volume{Name: "t", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}
		for i, seconds := range test.seconds {
			spec.Projected.Sources = append(spec.Projected.Sources,
				corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
					Path: fmt.Sprint("token", i), ExpirationSeconds: seconds}})
		}
		issuer := &counter{}
		source := &renewing{issuer: issuer, now: now}
		v, err := resolveVolume(t.Context(), source, nil, &corev1.Pod{}, spec, nil)
		if err != nil || len(v.Files) != len(test.seconds) || !source.at.Equal(now.Add(test.after)) {
			t.Errorf("volume %+v, renewed after %s, want %s; %v", v, source.at.Sub(now), test.after, err)
		}
		// Another change of the volume keeps the tokens.
		source = &renewing{issuer: issuer, now: now.Add(time.Minute), known: v.Files, at: source.at}
		if again, err := resolveVolume(t.Context(), source, nil, &corev1.Pod{}, spec, nil); err != nil ||
			string(again.Files[0].Data) != "1" || issuer.issued != len(test.seconds) {
			t.Errorf("volume %+v after %d tokens; %v", again, issuer.issued, err)
		}
	}
}
