// Package shared has types that several versions use.
// +kubebuilder:object:generate=true
package shared

// Money is an amount of a currency.
type Money struct {
	// currency is its code of three letters.
	// +kubebuilder:validation:Pattern=`^[A-Z]{3}$`
	Currency string `json:"currency"`
	// cents is the amount.
	Cents int64 `json:"cents"`
}

// Limited is a value with a bound.
type Limited[T any] struct {
	// value is there, or not.
	// +optional
	Value *T `json:"value,omitempty"`
	// limit bounds it.
	Limit T `json:"limit"`
}
