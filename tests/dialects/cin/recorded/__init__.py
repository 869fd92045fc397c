"""The conversations of the two original servers, held with ours."""
