@extends('page')
@section('body')
<form method="post"><input name="_token" type="hidden" value="{{ csrf_token() }}"><input name="note" value="{{ old('note') }}"></form>
@endsection
