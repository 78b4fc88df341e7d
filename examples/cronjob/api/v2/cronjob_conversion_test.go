package v2_test

import (
	"math/rand"
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/randfill"

	batchv1 "kelson.dev/examples/cronjob/api/v1"
	batchv2 "kelson.dev/examples/cronjob/api/v2"
)

// An object does not change if it is converted to the other version and back.
func TestNothingIsLostInConversion(t *testing.T) {
	fill := randfill.New().NilChance(.3).NumElements(1, 3).RandSource(rand.NewSource(1)).Funcs(
		func(c *batchv2.CronField, r randfill.Continue) {
			*c = []batchv2.CronField{"*", "*/5", "1,2", "MON-FRI", "7"}[r.Intn(5)]
		},
		func(s *string, r randfill.Continue) {
			*s = []string{"a", "* * * * *", "@daily", "1 2 3 4 5", "x y"}[r.Intn(5)]
		},
		func(*metav1.TypeMeta, randfill.Continue) {},
	)
	for range 100 {
		var hub, back batchv1.CronJob
		var spoke batchv2.CronJob
		fill.Fill(&hub)
		if err := spoke.ConvertFrom(hub.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		if err := spoke.ConvertTo(&back); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(hub, back) {
			t.Fatalf("v1 → v2 → v1:\n%+v\n%+v", hub, back)
		}
	}
	for range 100 {
		var spoke, back batchv2.CronJob
		var hub batchv1.CronJob
		fill.Fill(&spoke)
		if err := spoke.ConvertTo(&hub); err != nil {
			t.Fatal(err)
		}
		if err := back.ConvertFrom(&hub); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(spoke, back) {
			t.Fatalf("v2 → v1 → v2:\n%+v\n%+v", spoke, back)
		}
	}
}

func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		name, v1 string
		change   func(*batchv2.CronSchedule)
		want     string
	}{
		{"fields", "*/5 1 * * MON", func(s *batchv2.CronSchedule) { s.Hour = "2" }, "*/5 2 * * MON"},
		{"kept", "@daily", func(*batchv2.CronSchedule) {}, "@daily"},
		{"overruled", "@daily", func(s *batchv2.CronSchedule) { s.Hour = "2" }, "* 2 * * *"},
		{"left out", "1 2 3 4 5", func(s *batchv2.CronSchedule) {
			*s = batchv2.CronSchedule{Minute: "7"}
		}, "7 * * * *"},
	} {
		hub, back := &batchv1.CronJob{Spec: batchv1.CronJobSpec{Schedule: c.v1}}, &batchv1.CronJob{}
		spoke := &batchv2.CronJob{}
		if err := spoke.ConvertFrom(hub); err != nil {
			t.Fatal(err)
		}
		c.change(&spoke.Spec.Schedule)
		if err := spoke.ConvertTo(back); err != nil {
			t.Fatal(err)
		}
		if back.Spec.Schedule != c.want || len(back.Annotations) > 0 {
			t.Errorf("%s: %q, want %q; annotations %v", c.name, back.Spec.Schedule, c.want, back.Annotations)
		}
	}
}
