package explore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kelson.dev/internal/assert"
	"kelson.dev/lab/explore"
	"kelson.dev/operator"
	"kelson.dev/operator/client"
)

// keyed is an operator that creates a Secret for each ConfigMap. The name differs between versions.
func keyed(suffix string, before func(ctx context.Context, c client.Client,
	cm *corev1.ConfigMap) error) explore.Scenario {
	return eachConfigMap(func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) (operator.Result, error) {
		if cm.Name != "web" || cm.DeletionTimestamp != nil {
			return operator.Result{}, nil
		}
		if before != nil {
			if err := before(ctx, c, cm); err != nil {
				return operator.Result{}, err
			}
		}
		return operator.Result{}, createSecret(ctx, c, cm, suffix, "a")
	})
}

// An upgrade after which an object of the former version remains is found, and so is a rollback
// that leaves one. An operator that removes the objects of the former version raises no alarm for
// the upgrade, and an operator whose versions differ in nothing that remains raises none at all.
func TestFormerVersion(t *testing.T) {
	remove := func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error {
		secret := ownedBy(cm, &corev1.Secret{})
		secret.Name = cm.Name + "-key"
		return client.IgnoreNotFound(c.Delete(ctx, secret))
	}
	for name, test := range map[string]struct {
		former string
		before func(ctx context.Context, c client.Client, cm *corev1.ConfigMap) error
		want   map[string]string // the details of the alarms, by oracle and plan
	}{
		"faulty": {"-key", nil, map[string]string{
			"O1 upgrade after operator former #1":  "secrets default/web-key: exists",
			"O8 rollback after operator former #1": "secrets default/web-key: exists"}},
		"correct":  {"-key", remove, nil},
		"the same": {"-token", nil, nil},
	} {
		s := keyed("-token", test.before)
		s.Former = keyed(test.former, nil).Operator
		alarms := alarmsOf(t, s, explore.Upgrade, explore.Rollback)
		for id, detail := range test.want {
			if a, found := alarms[id]; !found || !strings.Contains(a.Detail, detail) {
				t.Errorf("%s: no alarm %s with %q: %v", name, id, detail, alarms)
			}
		}
		assert.Equalf(t, len(alarms), len(test.want), "%s: %v", name, alarms)
	}
}

// Without a former version, the plans are not tried, and a replay says what is missing.
func TestNoFormerVersion(t *testing.T) {
	s := keyed("-token", nil)
	report, err := explore.Explore(t, s, explore.Options{Check: true})
	const want = "not tried: upgrade, rollback, beside, upgrade-definitions: they need a former version of the operator (--former)"
	if err != nil || !strings.Contains(report.Summary(), want) {
		t.Errorf("%v, %s\nwant %q", err, report.Summary(), want)
	}
	report, err = explore.Explore(t, s, explore.Options{For: time.Hour, OneFault: true,
		Kinds: []explore.Kind{explore.Upgrade, explore.Rollback}})
	if err != nil || report.Plans != 0 {
		t.Errorf("%v, %s", err, report.Summary())
	}
	s.FormerProgram = &explore.Binary{Path: "/bin/true"}
	_, err = explore.Explore(t, s, explore.Options{Check: true})
	assert.ErrorContains(t, err, "FormerProgram without a Program")
}

// The former version of a program in virtual time is another program.
func TestFormerProgram(t *testing.T) {
	s := virtualProgram(t, "CORRECT=yes")
	s.FormerProgram = &explore.Binary{Path: s.Program.Path}
	for _, plan := range []string{"upgrade after operator former #1", "rollback after operator former #1"} {
		if got, steps := replayed(t, s, plan); got != "" || !strings.Contains(steps,
			"the newest version of the operator starts") {
			t.Errorf("%s: %q\n%s", plan, got, steps)
		}
	}
	s.FormerProgram.Env = []string{"EXIT=yes"}
	if got, steps := replayed(t, s, "rollback after operator former #1"); !strings.HasPrefix(got, "O3 ") ||
		!strings.Contains(got, "exit status 3") {
		t.Errorf("the former version exits: %q\n%s", got, steps)
	}
}

// An operator that writes the date of its own time zone is found. One that writes that of UTC
// raises no alarm.
func TestTimeZone(t *testing.T) {
	const plan = "time-zone after operator UTC-11 #1"
	for date, found := range map[string]bool{"local": true, "UTC": false} {
		s := virtualProgram(t, "CORRECT=yes", "DATE="+date)
		alarms := alarmsOf(t, s, explore.TimeZone)
		if a := alarms["O1 "+plan]; found != strings.Contains(a.Detail, "metadata.labels.date") ||
			!found && len(alarms) > 0 {
			t.Errorf("%s: %v", date, alarms)
		}
	}
	s := keyed("-token", nil)
	report, err := explore.Explore(t, s, explore.Options{Check: true})
	if err != nil || !strings.Contains(report.Summary(),
		"not tried: time-zone: the operator is not a program of its own") {
		t.Errorf("%v, %s", err, report.Summary())
	}
}
