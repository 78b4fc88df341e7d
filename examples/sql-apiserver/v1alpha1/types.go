// Package v1alpha1 has the kind Ingredient of the group kitchen.example.com.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Ingredient is a row of the table ingredients.
type Ingredient struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec IngredientSpec `json:"spec"`
}

// IngredientSpec is the stock of an ingredient.
type IngredientSpec struct {
	Amount int64  `json:"amount"`
	Unit   string `json:"unit,omitempty"`
}

// DeepCopyObject implements [runtime.Object].
func (in *Ingredient) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}
