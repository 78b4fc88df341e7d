// Command main is the operator optional-field of the corpus.
package main

import "kelson.dev/bench/explore/corpus"

func main() { corpus.Run("optional-field") }
