package explore_test

import (
	"fmt"

	"kelson.dev/lab/explore"
)

// A plan is text, so that an alarm can name it and a test can replay it.
func ExampleParsePlan() {
	plan, err := explore.ParsePlan("kill-after create secrets default/web-key #1; order 7")
	if err != nil {
		panic(err)
	}
	for _, fault := range plan {
		fmt.Println(fault.Kind)
	}
	fmt.Println(plan)
	_, err = explore.ParsePlan("explode create secrets default/web-key #1")
	fmt.Println("refused:", err != nil)
	// Output:
	// kill-after
	// order
	// kill-after create secrets default/web-key #1; order 7
	// refused: true
}
