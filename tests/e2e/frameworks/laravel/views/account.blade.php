@extends('page')
@section('body')
<p class="user">{{ auth()->id() }}</p>
@endsection
